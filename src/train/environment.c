// SPDX-License-Identifier: Apache-2.0
#include "rung/env.h"

#include <cblas.h>
#include <hwloc.h>
#include <jansson.h>
#include <libdeflate.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>
#include <yaml.h>
#include <zlib.h>
#ifdef RUNG_OPENMP
#    include <omp.h>
#endif

#include "base/cores.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "base/yaml_text.h"
#include "ops/onednn.h"

enum { FILE_MAX = 4 << 20 };

// Adds "name: value", the value quoted where YAML needs it. An empty value adds nothing.
static void add(rungi_string *out, const char *name, const char *value)
{
    if (!*value)
        return;
    rungi_string_add(out, "%s: ", name);
    // Plain is easier to read, and right unless the value holds what YAML gives a meaning.
    bool plain = strpbrk(value, ":#'\"\\{}[]&*!|>%@`\n\t") == NULL && value[0] != '-' &&
                 value[0] != ' ' && value[0] != '?' && value[0] != ',';
    if (plain)
        rungi_string_add(out, "%s", value);
    else
        rungi_yaml_add_text(value, out);
    rungi_string_append(out, "\n", 1);
}

// A small file's text without the error record of a failure; NULL when it cannot be read.
static char *read_text(const char *path)
{
    char *text = NULL;
    size_t size;
    if (rungi_fs_read(path, FILE_MAX, &text, &size) == RUNG_OK)
        return text;
    rung_error_clear();
    return NULL;
}

// What follows `name` and one of `marks` on the first line that begins with `name`, without quotes.
static void find_line(const char *text, const char *name, const char *marks, char *out, size_t size)
{
    *out = 0;
    for (const char *line = text; line && *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, name, strlen(name)) == 0) {
            const char *value = line + strlen(name);
            value += strspn(value, marks);
            size_t n = (size_t)(line + length - value);
            while (n > 0 && strchr(" \"", value[n - 1]))
                n--;
            snprintf(out, size, "%.*s", (int)n, value);
            return;
        }
        line += length + (line[length] == '\n');
    }
}

static void add_build(const rung_context *context, rungi_string *out)
{
    char value[300];
    snprintf(value, sizeof value, "%s (commit %s)", rung_version(), RUNG_COMMIT);
    add(out, "rung", value);
#ifdef __clang__
    snprintf(value, sizeof value, "%s", __VERSION__);
#else
    snprintf(value, sizeof value, "gcc %s", __VERSION__);
#endif
    add(out, "compiler", value);
    snprintf(value, sizeof value, "%s%s%s", RUNG_BUILD_TYPE,
             *RUNG_SANITIZERS ? ", sanitizers " : "", RUNG_SANITIZERS);
    add(out, "build", value);
    add(out, "instruction set", rung_isa_name(rung_context_isa(context)));
}

static void add_system(rungi_string *out)
{
    char value[300];
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(value, sizeof value, "%s %s %s", name.sysname, name.release, name.machine);
        add(out, "kernel", value);
    }
    char *text = read_text("/etc/os-release");
    find_line(text, "PRETTY_NAME", "=\"", value, sizeof value);
    add(out, "system", value);
    free(text);
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *s = text; (s = strstr(s, word)); s += length)
        if ((s == text || s[-1] == ' ') && (s[length] == ' ' || s[length] == 0))
            return true;
    return false;
}

static void add_processor(rungi_string *out)
{
    static const char *const known[] = {"avx",      "avx2",     "fma",         "f16c",
                                        "avx512f",  "avx512bw", "avx512_vnni", "avx512_bf16",
                                        "amx_bf16", "asimd",    "sve",         "bf16"};
    char model[300], flags[8192], value[300] = "";
    char *text = read_text("/proc/cpuinfo");
    find_line(text, "model name", " \t:", model, sizeof model);
    add(out, "processor", model);
    find_line(text, "flags", " \t:", flags, sizeof flags);
    if (!*flags)
        find_line(text, "Features", " \t:", flags, sizeof flags);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has_word(flags, known[i]))
            snprintf(value + strlen(value), sizeof value - strlen(value), "%s%s", *value ? " " : "",
                     known[i]);
    add(out, "processor flags", value);
    free(text);
}

static void add_cores(rungi_string *out)
{
    char value[300];
    cpu_set_t set;
    rungi_cores_allowed(&set);
    snprintf(value, sizeof value, "%ld online, %d allowed by affinity",
             sysconf(_SC_NPROCESSORS_ONLN), CPU_COUNT(&set));
    char *text = read_text("/sys/fs/cgroup/cpu.max");
    double quota, period;
    if (text && sscanf(text, "%lf %lf", &quota, &period) == 2 && period > 0)
        snprintf(value + strlen(value), sizeof value - strlen(value),
                 ", %.4g by the container's quota", quota / period);
    free(text);
    add(out, "cores", value);
#ifdef RUNG_OPENMP
    snprintf(value, sizeof value, "%d threads (specification %d)", omp_get_max_threads(), _OPENMP);
    add(out, "OpenMP", value);
#else
    add(out, "OpenMP", "off");
#endif
}

static void add_bytes(rungi_string *out, const char *name, uint64_t bytes)
{
    char value[32];
    if (bytes > 0)
        add(out, name, rungi_text_bytes(bytes, value, sizeof value));
}

static void add_memory(rungi_string *out)
{
    char value[300];
    char *text = read_text("/proc/meminfo");
    find_line(text, "MemTotal:", " ", value, sizeof value);
    add_bytes(out, "memory", strtoull(value, NULL, 10) * 1024);
    find_line(text, "MemAvailable:", " ", value, sizeof value);
    add_bytes(out, "memory available", strtoull(value, NULL, 10) * 1024);
    free(text);
    text = read_text("/sys/fs/cgroup/memory.max"); // a number, or "max"
    add_bytes(out, "memory limit of the container", text ? strtoull(text, NULL, 10) : 0);
    free(text);
    text = read_text("/sys/kernel/mm/transparent_hugepage/enabled");
    const char *begin = text ? strchr(text, '[') : NULL; // "always [madvise] never"
    snprintf(value, sizeof value, "%.*s", begin ? (int)strcspn(begin + 1, "]") : 0,
             begin ? begin + 1 : "");
    add(out, "huge pages", value);
    free(text);
}

static void add_libraries(rungi_string *out)
{
    char value[300];
    if (confstr(_CS_GNU_LIBC_VERSION, value, sizeof value) > 0)
        add(out, "libc", value);
    add(out, "oneDNN", rungi_dnn_version(value, sizeof value));
    snprintf(value, sizeof value, "%s", openblas_get_config());
    value[strlen(value) - (*value && value[strlen(value) - 1] == ' ')] = 0;
    add(out, "OpenBLAS", value);
    unsigned api = hwloc_get_api_version();
    snprintf(value, sizeof value, "%u.%u.%u", api >> 16, api >> 8 & 255, api & 255);
    add(out, "hwloc", value);
    add(out, "libyaml", yaml_get_version_string());
    add(out, "jansson", jansson_version_str());
    add(out, "zlib", zlibVersion());
    add(out, "libdeflate", LIBDEFLATE_VERSION_STRING);
    add(out, "libpng", png_get_libpng_ver(NULL));
    unsigned hash = XXH_versionNumber();
    snprintf(value, sizeof value, "%u.%u.%u", hash / 10000, hash / 100 % 100, hash % 100);
    add(out, "xxhash", value);
}

// Variables that change how the libraries run. rung itself reads none.
static void add_variables(rungi_string *out)
{
    static const char *const prefixes[] = {"OMP_",    "GOMP_",  "KMP_",    "OPENBLAS_",
                                           "GOTO_",   "DNNL_",  "ONEDNN_", "MKL_",
                                           "MALLOC_", "GLIBC_", "LD_PRE",  "CUDA_"};
    for (char **variable = environ; variable && *variable; variable++) {
        const char *equals = strchr(*variable, '=');
        for (size_t i = 0; equals && i < sizeof prefixes / sizeof *prefixes; i++) {
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) != 0)
                continue;
            char name[100];
            snprintf(name, sizeof name, "%.*s", (int)(equals - *variable), *variable);
            add(out, name, equals[1] ? equals + 1 : "set to nothing");
        }
    }
}

rung_status rung_env_text(const rung_context *context, char **text_out)
{
    rungi_string out = {0};
    add_build(context, &out);
    add_system(&out);
    add_processor(&out);
    add_cores(&out);
    add_memory(&out);
    add_libraries(&out);
    add_variables(&out);
    if (out.failed) {
        rungi_string_fini(&out);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the description of the environment");
    }
    *text_out = out.data;
    return RUNG_OK;
}
