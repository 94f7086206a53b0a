// SPDX-License-Identifier: Apache-2.0
#include "formats/jpeg_rows.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// jpeglib.h needs size_t and FILE.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"
#include "formats/image_file.h"

enum { M_SOF0 = 0xc0, M_SOF1 = 0xc1, M_SOS = 0xda, M_RST0 = 0xd0, M_APP14 = 0xee };

// ---- reading

const unsigned char *rungi_jpeg_after_markers(const unsigned char *scan, const unsigned char *end,
                                              int count)
{
    int found = 0;
    while (found < count) {
        scan = end - scan >= 2 ? memchr(scan, 0xff, (size_t)(end - scan) - 1) : NULL;
        if (!scan)
            return NULL;
        int code = scan[1];
        scan += code == 0xff ? 1 : 2;
        if (code == 0 || code == 0xff)
            continue; // a byte of data, a fill byte
        if (code != M_RST0 + found % 8)
            return NULL;
        found++;
    }
    return scan;
}

size_t rungi_jpeg_cut_header(const unsigned char *data, size_t size, int height, unsigned char *out)
{
    size_t used = 2;
    bool sized = false;
    if (size < 2)
        return 0;
    memcpy(out, data, 2);
    for (size_t at = 2; at + 4 <= size;) {
        int marker = data[at + 1];
        size_t length = (size_t)data[at + 2] << 8 | data[at + 3];
        if (data[at] == 0xff && marker == 0xff) { // a fill byte
            at++;
            continue;
        }
        if (data[at] != 0xff || marker < 0xc0 || (marker >= M_RST0 && marker < M_SOS) ||
            length < 2 || length > size - at - 2)
            return 0;
        // APP0 and APP14 tell the colours; other APPn and comments are left out.
        bool app = marker > 0xe0 && marker <= 0xef && marker != M_APP14;
        if (!app && marker != JPEG_COM) {
            memcpy(out + used, data + at, 2 + length);
            if ((marker == M_SOF0 || marker == M_SOF1) && length >= 8) {
                out[used + 5] = (unsigned char)(height >> 8);
                out[used + 6] = (unsigned char)height;
                sized = true;
            }
            used += 2 + length;
        }
        at += 2 + length;
        if (marker == M_SOS)
            return sized && at == size ? used : 0;
    }
    return 0;
}

// ---- writing

typedef struct transcoder {
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
    unsigned char *out; // libjpeg's
    unsigned long size;
    bool too_large;
} transcoder;

static void on_error(j_common_ptr c)
{
    transcoder *t = c->client_data;
    c->err->format_message(c, t->message);
    longjmp(t->jump, 1);
}

// Warnings mean damage, except those that the decoder passes over too.
static void on_message(j_common_ptr c, int level)
{
    int code = c->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR &&
        code != JWRN_ADOBE_XFORM && code != JWRN_BOGUS_ICC && code != JWRN_TOO_MUCH_DATA)
        on_error(c);
}

static bool fits(const struct jpeg_decompress_struct *c)
{
    uint64_t bytes = 0;
    for (int i = 0; i < c->num_components; i++)
        bytes += (uint64_t)c->comp_info[i].width_in_blocks * c->comp_info[i].height_in_blocks *
                 sizeof(JBLOCK);
    return bytes <= RUNGI_IMAGE_WORK_MAX;
}

// Markers that libjpeg does not write by itself.
static void copy_markers(transcoder *t)
{
    for (jpeg_saved_marker_ptr m = t->from.marker_list; m; m = m->next) {
        bool jfif =
            m->marker == JPEG_APP0 && m->data_length >= 5 && memcmp(m->data, "JFIF", 5) == 0;
        bool adobe =
            m->marker == JPEG_APP0 + 14 && m->data_length >= 5 && memcmp(m->data, "Adobe", 5) == 0;
        if ((jfif && t->to.write_JFIF_header) || (adobe && t->to.write_Adobe_marker))
            continue;
        jpeg_write_marker(&t->to, m->marker, m->data, m->data_length);
    }
}

// libjpeg's calls; false when it jumped out.
static bool transcode(transcoder *t, const void *data, size_t size)
{
    if (setjmp(t->jump))
        return false;
    jpeg_create_decompress(&t->from);
    jpeg_create_compress(&t->to);
    t->from.client_data = t->to.client_data = t;
    jpeg_mem_src(&t->from, data, size);
    jpeg_save_markers(&t->from, JPEG_COM, 0xffff);
    for (int i = 0; i < 16; i++)
        jpeg_save_markers(&t->from, JPEG_APP0 + i, 0xffff);
    jpeg_read_header(&t->from, TRUE);
    t->too_large = !fits(&t->from);
    if (t->too_large)
        return true;
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&t->from);
    jpeg_copy_critical_parameters(&t->from, &t->to);
    t->to.restart_in_rows = 1;
    t->to.optimize_coding = TRUE;
    jpeg_mem_dest(&t->to, &t->out, &t->size);
    jpeg_write_coefficients(&t->to, coefficients);
    copy_markers(t);
    jpeg_finish_compress(&t->to);
    jpeg_finish_decompress(&t->from);
    return true;
}

rung_status rungi_jpeg_write_rows(const void *data, size_t size, const char *name,
                                  rungi_string *out)
{
    out->size = 0;
    if (size < 3 || memcmp(data, "\xff\xd8\xff", 3) != 0) {
        rungi_string_append(out, data, size);
        RUNG_CHECK(!out->failed, RUNG_NO_MEMORY, "%s: no memory to copy it", name);
        return RUNG_OK;
    }
    transcoder *t = calloc(1, sizeof *t);
    RUNG_CHECK(t, RUNG_NO_MEMORY, "%s: no memory to rewrite it", name);
    t->from.err = t->to.err = jpeg_std_error(&t->errors);
    t->errors.error_exit = on_error;
    t->errors.emit_message = on_message;
    t->from.client_data = t->to.client_data = t;
    rung_status status = RUNG_OK;
    if (!transcode(t, data, size))
        status = RUNG_FAIL(RUNG_FORMAT, "%s: damaged JPEG: %s", name, t->message);
    else if (t->too_large)
        rungi_string_append(out, data, size);
    else
        rungi_string_append(out, (const char *)t->out, t->size);
    jpeg_destroy_decompress(&t->from);
    jpeg_destroy_compress(&t->to);
    free(t->out);
    free(t);
    if (status == RUNG_OK && out->failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to rewrite it", name);
    return status;
}
