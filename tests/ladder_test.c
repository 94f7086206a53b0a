// SPDX-License-Identifier: Apache-2.0
// The ladder's judgement, with blocks that a script makes up: what is kept, what is slower, wrong
// or not available, and that blocks are measured again while cores move. (The real program climbs
// in tests/cli/ladder.case.)
#include "training.h"

#include <math.h>
#include <sys/stat.h>

#include "base/json.h"
#include "rung/ladder.h"

// Stands in for rung. A block's time depends on the switches, moved by up to 0.4 % from call to
// call; FAR_AT is the number of the block during which cores move apart.
static const char script[] =
    "#!/bin/sh\n"
    "verb=$1; all=\" $* \"; here=$(dirname \"$0\")\n"
    "metrics() {\n" // of a training in the folder $1
    "  ms='\"ms\":{\"wait\":0,\"eval\":1,\"checkpoint\":1}'\n"
    "  mkdir -p \"$1\"\n"
    "  for e in \"epoch\\\",\\\"seen_once\\\":$SEEN,\\\"seen_again\\\":0\" \\\n"
    "    \"eval\\\",\\\"accuracy\\\":$2,\\\"correct\\\":90,\\\"evaluated\\\":100\" \\\n"
    "    'end\",\"seconds\":2,\"samples\":64'; do\n"
    "    echo \"{\\\"event\\\":\\\"$e,$ms}\"\n"
    "  done >\"$1/metrics.jsonl\"\n"
    "}\n"
    "case $verb in\n"
    "eval) echo \"{\\\"correct\\\":$CORRECT,\\\"samples\\\":100}\"; exit 0;;\n"
    "train)\n"
    "  run=${all##*--run=}; run=${run%% *}; accuracy=0.90\n"
    "  case $all in *seed=1*) accuracy=0.91;; esac\n"
    "  case $run in */best) accuracy=$BEST;; esac\n"
    "  metrics \"$run\" $accuracy; exit 0;;\n"
    "esac\n"
    "loss=1.0; state=same; time=10000; error=1e-6; wait=0.1\n"
    "distance=$error\n"
    "case $all in *--disturb*) loss=1.00001;; esac\n"
    // One rounding to 8 digits, to 11 digits; what exchanging in 16 bits and training in them do.
    "case $all in *--disturb=3.90625e-3*) loss=1.001;; esac\n"
    "case $all in *--disturb=4.8828125e-4*) loss=1.0001;; esac\n"
    "case $all in *--disturb-gradient*) distance=0.02;; esac\n"
    "case $all in *precision=bf16*) time=9000; loss=1.003; error=0.9; distance=0.05;; esac\n"
    "case $all in *precision=fp16*) time=9000; loss=1.0003; distance=$HALF;; esac\n"
    "case $all in *--disturb-seed=20*) loss=$JUMP;; esac\n"
    "case $all in *channels_last*) time=5000; loss=1.00002;; esac\n"  // faster, within the envelope
    "case $all in *plan.fuse*) time=$((time / 2)); loss=1.1;; esac\n" // faster and wrong
    "case $all in *kernels=own*) error=1e-3;; esac\n"                 // a wrong gradient
    "case $all in *autotune*) echo 'rung: step 3: the loss is nan' >&2; exit 4;; esac\n"
    "case $all in *num_workers*) time=$((time * 3 / 2));; esac\n"         // slower
    "case $all in *huge_pages*) state=other; time=$((time / 2));; esac\n" // other bits
    "case $all in *device.threads*) echo 'rung: no threads here' >&2; exit 1;; esac\n"
    "case $all in *--gate*) ;; *)\n"
    "  n=$(cat \"$here/count\" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >\"$here/count\"\n"
    "  time=$((time * (1000 + n * 7 % 5) / 1000));;\n"
    "esac\n"
    "after=90; [ \"${n:-0}\" = \"$FAR_AT\" ] && after=500\n"
    "cat <<END\n"
    "{\"losses\": [2.0, $loss], \"state\": \"$state\", \"gradient_error\": $error, "
    "\"gradient_distance\": $distance,\n"
    "\"step_ms\": $time, \"samples_per_s\": $((1000000000 / time)), \"wait_share\": $WAIT, "
    "\"peak_bytes\": 1000000,\n"
    "\"round_trip_ns\": [90, $after], \"ms\": {\"wait\": 1, \"copy\": 0, \"forward\": 1,\n"
    "\"backward\": 1, \"exchange\": 0, \"optimizer\": 1, \"eval\": 0, \"checkpoint\": 0,\n"
    "\"other\": 0}}\n"
    "END\n";

typedef struct climb {
    rung_ladder_result result;
    char notices[2048];
    json_t *json; // ladder.json
    rung_status status;
} climb;

static void note(void *user, const char *line)
{
    climb *c = user;
    snprintf(c->notices, sizeof c->notices, "%s", line);
}

// What the script is told: NAME=VALUE.
static void set_variables(const char *const *more)
{
    static const char *const initial[] = {"BEST=0.90", "CORRECT=90",   "SEEN=64",   "FAR_AT=none",
                                          "WAIT=0.1",  "JUMP=1.00001", "HALF=0.05", NULL};
    const char *const *const all[] = {initial, more};
    for (int i = 0; i < 2; i++)
        for (const char *const *p = all[i]; p && *p; p++) {
            char name[32];
            const char *value = strchr(*p, '=');
            snprintf(name, sizeof name, "%.*s", (int)(value - *p), *p);
            assert_int_equal(setenv(name, value + 1, 1), 0);
        }
}

// Climbs `rungs` ("[fuse]") from a base with `ranks` ranks of a strategy, with the script in place
// of rung.
static climb *climb_from(test_folder *folder, const char *strategy, const char *ranks,
                         const char *rungs, const char *const *variables)
{
    climb *c = calloc(1, sizeof *c);
    training_log log;
    rung_context *context = training_context(&log);
    char setting[256], json[300];
    const char *program = test_path(folder, "program"), *run = test_path(folder, "run");
    test_write(program, script, sizeof script - 1);
    assert_int_equal(chmod(program, 0755), 0);
    set_variables(variables);
    snprintf(setting, sizeof setting, "ladder.rungs=%s", rungs);
    const char *const overrides[] = {setting,
                                     strategy,
                                     ranks,
                                     "device.threads=2",
                                     "train.epochs=1",
                                     "model.name=lenet5",
                                     "data.synthetic.shape=[1, 28, 28]",
                                     NULL};
    rung_config *config = training_config(context, TRAINING_DATA, overrides);
    rung_ladder_observer observer = {.user = c, .notice = note};
    c->status = rung_ladder_run(
        context, config,
        &(rung_ladder_options){.program = program, .run = run, .observer = &observer}, &c->result);
    snprintf(json, sizeof json, "%s/ladder.json", run);
    if (c->status == RUNG_OK || c->status == RUNG_GATE)
        assert_ok(rungi_json_load(json, 1 << 20, &c->json));
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    return c;
}

static climb *climb_with(test_folder *folder, const char *rungs, const char *const *variables)
{
    return climb_from(folder, "train.strategy=auto", "train.ranks=1", rungs, variables);
}

static void end(climb *c)
{
    json_decref(c->json);
    free(c);
}

static void check_rung(const climb *c, int index, const char *name, const char *verdict,
                       const char *gate, bool passed)
{
    const json_t *o = json_array_get(json_object_get(c->json, "rungs"), (size_t)index);
    const json_t *g = json_object_get(o, "gate");
    assert_string_equal(json_string_value(json_object_get(o, "name")), name);
    const char *got = json_string_value(json_object_get(o, "verdict"));
    if (strncmp(got, verdict, strlen(verdict)) != 0)
        fail_msg("%s: verdict \"%s\", expected \"%s\"", name, got, verdict);
    assert_string_equal(json_string_value(json_object_get(g, "kind")), gate);
    assert_int_equal(json_is_true(json_object_get(g, "passed")), passed);
}

static void each_verdict(void **state)
{
    climb *c = climb_with(*state,
                          "[channels_last, fuse, own_kernels, autotune, workers, prefetch, "
                          "huge_pages, threads, preloaded]",
                          NULL);
    if (c->status != RUNG_OK)
        fail_msg("%s", rung_error_last()->message);
    check_rung(c, 0, "base", "kept", "none", true);
    check_rung(c, 1, "preloaded", "not available: the data are not read", "none", true);
    check_rung(c, 2, "channels_last", "kept", "envelope", true);
    check_rung(c, 3, "fuse", "wrong", "envelope", false);
    check_rung(c, 4, "own_kernels", "wrong", "envelope", false);
    check_rung(c, 5, "autotune", "wrong", "envelope", false);
    check_rung(c, 6, "workers", "slower", "bits", true);
    check_rung(c, 7, "prefetch", "not available: needs workers", "none", true);
    check_rung(c, 8, "huge_pages", "wrong", "bits", false);
    check_rung(c, 9, "threads", "not available: no threads here", "envelope", true);
    const rung_rung *first = &c->result.rungs[2];
    assert_near(first->gain_prev, 2, 0.02);
    assert_true(first->ci_low > 1.9 && first->ci_low <= first->gain_prev);
    assert_true(first->ci_high < 2.1 && first->ci_high >= first->gain_prev);
    assert_near(c->result.rungs[6].gain_prev, 1 / 1.5, 0.01); // against channels_last
    assert_near(c->result.rungs[6].gain_base, 2 / 1.5, 0.02);
    assert_near(first->round_trip_ns, 90, 0);
    assert_string_equal(c->result.best_set, "plan.layout=channels_last");
    assert_near(c->result.best_gain, 2, 0.02);
    const rung_confirm *r = &c->result.confirm;
    assert_true(r->done && r->equal && r->reload_equal && r->coverage_ok);
    // Three trainings of the base: 0.90, 0.91, 0.90.
    assert_near(r->base_metric, 2.71 / 3, 1e-9);
    assert_near(r->margin, 4.302653 * sqrt(1.0 / 30000) * sqrt(4.0 / 3), 1e-4);
    assert_near(r->base_seconds, 2 - 1e-3, 1e-9); // without validation
    end(c);
}

// What rounds to 16 bits is measured by that rounding: neither the loss nor the gradient of these
// rungs would pass for a rung of float32. A gradient that rounding does not explain is wrong.
static void sixteen_bits(void **state)
{
    static const char *const halves[] = {"HALF=0.05", "HALF=0.3"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        test_folder folder;
        test_folder_init(&folder);
        climb *c = climb_with(&folder, "[bf16, fp16]", (const char *const[]){halves[i], NULL});
        check_rung(c, 1, "bf16", "kept", "envelope", true);
        assert_non_null(strstr(c->result.rungs[1].gate_detail,
                               "within 3.0e-03 of the base (allowed 1.0e-02), gradient 5.0e-02 "
                               "from float64 (allowed 8.0e-02); compute "));
        check_rung(c, 2, "fp16", "not available: other 16 bits", "none", true);
        end(c);
        test_folder_fini(&folder);
        test_folder_init(&folder);
        c = climb_with(&folder, "[fp16]", (const char *const[]){halves[i], NULL});
        check_rung(c, 1, "fp16", i ? "wrong" : "kept", "envelope", !i);
        end(c);
        test_folder_fini(&folder);
    }
}

// Losses outside of the envelope are no proof while a disturbed base may still jump as far: the
// twentieth does, to a tenth of what the rung `fuse` has.
static void jumps_widen_the_envelope(void **state)
{
    climb *c = climb_with(*state, "[fuse]", (const char *const[]){"JUMP=1.0101", NULL});
    assert_int_equal(c->status, RUNG_OK);
    check_rung(c, 1, "fuse", "kept", "envelope", true);
    assert_non_null(strstr(c->result.rungs[1].gate_detail, "(allowed 1.0e-01)"));
    end(c);
}

// Each way in which the best configuration can fail to be confirmed ends with RUNG_GATE, and
// everything is written all the same.
static void confirmation_fails(void **state)
{
    static const struct {
        const char *variable, *detail;
    } cases[] = {
        {"BEST=0.80", "accuracy 0.8000 is below the base's 0.9033 by more than the margin"},
        {"CORRECT=89", "evaluates to other counts"},
        {"SEEN=63", "not every sample was seen exactly once"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_folder folder;
        test_folder_init(&folder);
        climb *c =
            climb_with(&folder, "[channels_last]", (const char *const[]){cases[i].variable, NULL});
        assert_int_equal(c->status, RUNG_GATE);
        assert_int_equal(rung_status_exit(c->status), 3);
        assert_non_null(strstr(c->result.confirm.detail, cases[i].detail));
        assert_non_null(strstr(rung_error_last()->message, cases[i].detail));
        check_rung(c, 1, "channels_last", "kept", "envelope", true);
        end(c);
        test_folder_fini(&folder);
    }
}

// Blocks 1 to 3 are the base's alone; 4 and 5 make the first round of the rung.
static void rounds_are_repeated_while_cores_move(void **state)
{
    climb *c = climb_with(*state, "[channels_last]", (const char *const[]){"FAR_AT=5", NULL});
    assert_int_equal(c->status, RUNG_OK);
    const json_t *o = json_array_get(json_object_get(c->json, "rungs"), 1);
    assert_int_equal(json_integer_value(json_object_get(o, "rounds_repeated")), 1);
    assert_int_equal(json_integer_value(json_object_get(o, "rounds_mixed")), 0);
    char *count = NULL;
    size_t size;
    assert_ok(rungi_fs_read(test_path(*state, "count"), 64, &count, &size));
    assert_int_equal(atoi(count), 3 + 2 * 6);
    free(count);
    check_rung(c, 1, "channels_last", "kept", "envelope", true);
    end(c);
}

// Case C88: compute rungs cannot help a step that waits.
static void waiting_is_said(void **state)
{
    climb *c = climb_with(*state, "[channels_last]", (const char *const[]){"WAIT=0.6", NULL});
    assert_int_equal(c->status, RUNG_OK);
    assert_non_null(strstr(c->notices, "a step waits for data for 60 % of its time"));
    end(c);
}

// Workers of parameter servers give the bits of replicas, and not those of stages.
static void servers_are_held_to_what_they_replace(void **state)
{
    (void)state;
    for (int stages = 0; stages < 2; stages++) {
        test_folder folder;
        test_folder_init(&folder);
        climb *c =
            climb_from(&folder, stages ? "train.strategy=pipeline" : "train.strategy=ddp",
                       "train.ranks=2", "[ddp, parameter_server]", (const char *const[]){NULL});
        check_rung(c, 1, "ddp",
                   stages ? "not available: train.strategy is pipeline"
                          : "not available: the base has it already",
                   "none", true);
        check_rung(c, 2, "parameter_server", "no clear change", stages ? "envelope" : "bits", true);
        end(c);
        test_folder_fini(&folder);
    }
}

static void base_that_fails_ends_the_ladder(void **state)
{
    climb *c = climb_with(*state, "[channels_last]", (const char *const[]){"WAIT=", NULL});
    assert_int_equal(c->status, RUNG_FORMAT);
    end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(each_verdict),
        IN_FOLDER(jumps_widen_the_envelope),
        cmocka_unit_test(sixteen_bits),
        cmocka_unit_test(confirmation_fails),
        IN_FOLDER(rounds_are_repeated_while_cores_move),
        IN_FOLDER(waiting_is_said),
        cmocka_unit_test(servers_are_held_to_what_they_replace),
        IN_FOLDER(base_that_fails_ends_the_ladder),
    };
    return RUN_TESTS(tests);
}
