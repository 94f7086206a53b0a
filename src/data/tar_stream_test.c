// SPDX-License-Identifier: Apache-2.0
// Archives read as streams: each sample once for any number of workers and ranks, in an order that
// depends on neither.
#include "data/tar_stream.h"

#include "formats/tar_write.h"
#include "group_testing.h"

enum { SHARDS = 7, RECORDS = 100, EPOCHS = 3 };

typedef struct tape {
    uint8_t bytes[1 << 20];
    size_t size;
} tape;

static rung_status put(void *user, const void *data, size_t size)
{
    tape *t = user;
    assert_true(size <= sizeof t->bytes - t->size);
    memcpy(t->bytes + t->size, data, size);
    t->size += size;
    return RUNG_OK;
}

// Archive `shard` of `shards` has the records of its remainder: a pixel and the class record % 10.
static void write_shard(const char *name, int shard, int shards, int records, bool compress)
{
    static tape t;
    t.size = 0;
    for (int i = shard; i < records; i += shards) {
        char entry[32], picture[16], label[8];
        snprintf(entry, sizeof entry, "%05d.pgm", i);
        snprintf(picture, sizeof picture, "P5 1 1 255\n%c", (char)(i % 251));
        assert_ok(rungi_tar_put(put, &t, entry, picture, 12));
        snprintf(entry, sizeof entry, "%05d.cls", i);
        snprintf(label, sizeof label, "%d", i % 10);
        assert_ok(rungi_tar_put(put, &t, entry, label, strlen(label)));
    }
    assert_ok(rungi_tar_end(put, &t));
    if (!compress) {
        test_write(&folder, name, t.bytes, t.size);
        return;
    }
    gzFile file = gzopen(test_path(&folder, name), "wb1");
    assert_int_equal(gzwrite(file, t.bytes, (unsigned)t.size), (int)t.size);
    assert_int_equal(gzclose(file), Z_OK);
}

static int set_up(void **state)
{
    char name[32];
    if (group_set_up(state) != 0)
        return -1;
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "s-%d.tar%s", i, i % 2 ? ".gz" : "");
        write_shard(name, i, SHARDS, RECORDS, i % 2);
    }
    return 0;
}

static rung_source *open_stream(void)
{
    rung_source *source;
    assert_ok(rung_source_tar_stream(context, folder.path, &source));
    assert_int_equal(source->count, RECORDS);
    return source;
}

// The number of a record: what its file is called.
static int record_of(rung_source *source, int64_t sample)
{
    char place[300];
    source->describe(source->self, sample, place, sizeof place);
    return atoi(strstr(place, ", ") + 2);
}

static const rung_transform steps[] = {{.kind = RUNG_TRANSFORM_DECODE, .channels = 1},
                                       {.kind = RUNG_TRANSFORM_RESIZE, .height = 1, .width = 1}};

static rung_loader *load(rung_source *source, const rung_sampler *sampler, int workers)
{
    rung_loader *loader;
    assert_ok(rung_loader_create(context, source,
                                 &(rung_loader_options){.batch_size = 8,
                                                        .sampler = sampler,
                                                        .num_workers = workers,
                                                        .transforms = steps,
                                                        .transform_count = 2},
                                 &loader));
    return loader;
}

// The samples of the next `count` positions; pixel and label belong to the record.
static void take(rung_source *source, rung_loader *loader, int64_t count, int64_t *out)
{
    for (int64_t done = 0; done < count;) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        for (int64_t i = 0; i < batch.count && done < count; i++, done++) {
            int record = record_of(source, batch.samples[i]);
            assert_int_equal(((const uint8_t *)batch.fields[0].data)[i], record % 251);
            assert_int_equal(((const int64_t *)batch.fields[1].data)[i], record % 10);
            out[done] = batch.samples[i];
        }
        rung_loader_release(loader, &batch);
    }
}

// Case C11: 2 ranks with 3 workers each.
static void each_once_over_ranks_and_workers(void **state)
{
    (void)state;
    int seen[EPOCHS][RECORDS] = {0};
    for (int rank = 0; rank < 2; rank++) {
        int64_t samples[RECORDS];
        rung_source *source = open_stream();
        rung_sampler *sampler;
        assert_ok(rung_sampler_stream(
            source, &(rung_stream_options){.shuffle = true, .rank = rank, .ranks = 2}, &sampler));
        rung_loader *loader = load(source, sampler, 3);
        for (int e = 0; e < EPOCHS; e++) {
            take(source, loader, sampler->count, samples);
            for (int64_t i = 0; i < sampler->count; i++)
                seen[e][record_of(source, samples[i])]++;
        }
        rung_loader_destroy(&loader);
        rung_sampler_destroy(&sampler);
        rung_source_destroy(&source);
    }
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < RECORDS; i++)
            assert_int_equal(seen[e][i], 1);
}

// The same order with any number of workers, another in each epoch, and from any place on.
static void the_order_is_a_function(void **state)
{
    (void)state;
    static int64_t first[EPOCHS * RECORDS], other[EPOCHS * RECORDS];
    const int workers[] = {0, 1, 2, 5};
    for (int w = 0; w < 4; w++) {
        rung_source *source = open_stream();
        rung_sampler *sampler;
        assert_ok(rung_sampler_stream(
            source, &(rung_stream_options){.shuffle = true, .buffer = 20, .lanes = 3, .seed = 5},
            &sampler));
        rung_loader *loader = load(source, sampler, workers[w]);
        take(source, loader, EPOCHS * RECORDS, w ? other : first);
        if (w)
            assert_memory_equal(first, other, sizeof first);
        assert_ok(rung_loader_seek(loader, 1, 37)); // back
        take(source, loader, RECORDS - 37, other);
        assert_memory_equal(first + RECORDS + 37, other, (RECORDS - 37) * sizeof *first);
        assert_ok(rung_loader_seek(loader, 2, 96));
        take(source, loader, 4, other);
        assert_memory_equal(first + 2 * RECORDS + 96, other, 4 * sizeof *first);
        rung_loader_destroy(&loader);
        rung_sampler_destroy(&sampler);
        rung_source_destroy(&source);
    }
    assert_memory_not_equal(first, first + RECORDS, RECORDS * sizeof *first);
    // Shuffled: what stood together in an archive does not.
    int neighbours = 0;
    for (int i = 1; i < RECORDS; i++)
        neighbours += first[i] == first[i - 1] + 1;
    assert_true(neighbours < 20);
}

// Without shuffling it is that of the archives; what is left out is never given.
static void in_order_and_in_part(void **state)
{
    (void)state;
    int64_t samples[RECORDS];
    bool keep[RECORDS];
    rung_source *source = open_stream(), *again;
    rung_sampler *sampler;
    for (int i = 0; i < RECORDS; i++)
        keep[i] = i % 3 == 1;
    assert_ok(rung_sampler_stream(source, &(rung_stream_options){.keep = keep}, &sampler));
    assert_int_equal(sampler->count, 33);
    assert_ok(rungi_source_stream_again(source, &again));
    assert_int_equal(again->class_count, 10);
    rung_loader *loader = load(again, sampler, 2);
    take(again, loader, 33, samples);
    for (int i = 0; i < 33; i++)
        assert_int_equal(samples[i], 3 * i + 1);
    rung_loader_destroy(&loader);
    rung_sampler_destroy(&sampler);
    rung_source_destroy(&again);
    rung_source_destroy(&source);
}

// An order that nobody told is right too; after an epoch nothing is kept.
static void any_order_is_served(void **state)
{
    (void)state;
    int64_t samples[RECORDS];
    int seen[RECORDS] = {0};
    rung_source *source = open_stream();
    rung_sampler *sampler;
    assert_ok(rung_sampler_random(RECORDS, 3, &sampler));
    rung_loader *loader = load(source, sampler, 0);
    take(source, loader, RECORDS, samples);
    for (int i = 0; i < RECORDS; i++)
        seen[samples[i]]++;
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(rungi_tar_streams_kept(rungi_picture_source_of(source)->streams), 0);
    rung_loader_destroy(&loader);
    rung_sampler_destroy(&sampler);
    rung_source_destroy(&source);
}

// What is kept is the buffer and what the lanes passed, however long the archives are: also when
// reading begins far into the epoch.
static void little_is_kept(void **state)
{
    (void)state;
    enum { LONG = 3000, BUFFER = 40 };
    char name[32];
    static int64_t samples[LONG];
    test_folder kept = folder, own;
    test_folder_make(&own);
    folder = own;
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "l-%02d.tar", i);
        write_shard(name, i, 30, LONG, false);
    }
    for (int from = 0; from < 2; from++) {
        rung_source *source;
        rung_sampler *sampler;
        int64_t most = 0;
        assert_ok(rung_source_tar_stream(context, folder.path, &source));
        assert_ok(rung_sampler_stream(
            source, &(rung_stream_options){.shuffle = true, .buffer = BUFFER, .lanes = 4},
            &sampler));
        rung_loader *loader = load(source, sampler, 0);
        if (from)
            assert_ok(rung_loader_seek(loader, 0, LONG / 2));
        for (int i = 0; i < LONG / 2; i += 8) {
            take(source, loader, 8, samples);
            int64_t now = rungi_tar_streams_kept(rungi_picture_source_of(source)->streams);
            most = now > most ? now : most;
        }
        // Pictures of 12 bytes. After a jump, those that workers may still ask for are kept too.
        assert_true(most <= 12 * (BUFFER + 8 + (from ? 512 : 0)));
        assert_true(most > 12 * BUFFER / 2);
        rung_loader_destroy(&loader);
        rung_sampler_destroy(&sampler);
        rung_source_destroy(&source);
    }
    test_folder_remove(&folder);
    folder = kept;
}

// The part of every batch that another rank takes is passed over and given up after a while.
static void others_parts_are_given_up(void **state)
{
    (void)state;
    enum { LONG = 16000, SHARDS_NOW = 40, STALE = 4096 };
    char name[32];
    test_folder kept = folder, own;
    test_folder_make(&own);
    folder = own;
    for (int i = 0; i < SHARDS_NOW; i++) {
        snprintf(name, sizeof name, "l-%02d.tar", i);
        write_shard(name, i, SHARDS_NOW, LONG, false);
    }
    rung_source *source;
    rung_sampler *sampler;
    rung_loader *loader;
    assert_ok(rung_source_tar_stream(context, folder.path, &source));
    assert_ok(rung_sampler_stream(source, &(rung_stream_options){.shuffle = true}, &sampler));
    assert_ok(rung_loader_create(context, source,
                                 &(rung_loader_options){.batch_size = 80,
                                                        .sampler = sampler,
                                                        .world = 2,
                                                        .transforms = steps,
                                                        .transform_count = 2},
                                 &loader));
    int64_t most = 0;
    for (int i = 0; i < LONG / 80; i++) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.count, 40);
        rung_loader_release(loader, &batch);
        int64_t now = rungi_tar_streams_kept(rungi_picture_source_of(source)->streams);
        most = now > most ? now : most;
    }
    // Half of what is not stale, of the buffer and the lanes, and of what comes between two looks.
    assert_true(most <= 12 * (STALE / 2 + 1000 + 8 + 1024));
    rung_loader_destroy(&loader);
    rung_sampler_destroy(&sampler);
    rung_source_destroy(&source);
    test_folder_remove(&folder);
    folder = kept;
}

static void few_archives_are_told(void **state)
{
    (void)state;
    rung_source *source = open_stream();
    rung_sampler *sampler;
    messages = (test_log){0};
    rung_loader *loader = load(source, NULL, 8);
    assert_non_null(strstr(messages.text, "7 archives are read as streams by 8 readers (1 ranks x "
                                          "8 workers): no more than 7 unpack at a time"));
    rung_loader_destroy(&loader);
    assert_fails(RUNG_DATA, "7 archives for 8 ranks",
                 rung_sampler_stream(source, &(rung_stream_options){.ranks = 8}, &sampler));
    rung_source_destroy(&source);
    rung_source *other;
    assert_ok(rung_source_synthetic(
        context, &(rung_synthetic_options){.count = 4, .shape = RUNG_SHAPE(1, 1, 1), .classes = 2},
        &other));
    assert_fails(RUNG_INVALID, "does not read archives as streams",
                 rung_sampler_stream(other, &(rung_stream_options){0}, &sampler));
    rung_source_destroy(&other);
}

// An archive that was cut after its index was made: the samples before are given, the others are
// errors by its name; with skip_bad they are left out.
static void cut_meanwhile(void **state)
{
    (void)state;
    rung_source *source = open_stream();
    const char *path = test_path(&folder, "s-2.tar");
    char bytes[1 << 16];
    size_t size = test_read(path, bytes, sizeof bytes);
    test_write(&folder, "s-2.tar", bytes, size / 2);
    rung_loader *loader;
    assert_ok(rung_loader_create(context, source,
                                 &(rung_loader_options){.batch_size = 10,
                                                        .num_workers = 2,
                                                        .transforms = steps,
                                                        .transform_count = 2,
                                                        .skip_bad = true,
                                                        .bad_limit = 1,
                                                        .end_epoch = 1},
                                 &loader));
    messages = (test_log){0};
    int64_t good = 0, bad = 0;
    for (int i = 0; i < 10; i++) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        good += batch.count;
        bad += batch.left_out;
        rung_loader_release(loader, &batch);
    }
    assert_int_equal(good + bad, RECORDS);
    assert_true(bad >= 6 && bad <= 9); // of 14 in the archive
    assert_non_null(strstr(messages.text, "s-2.tar: cut: it ends after"));
    rung_loader_destroy(&loader);
    rung_source_destroy(&source);
    test_write(&folder, "s-2.tar", bytes, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_once_over_ranks_and_workers),
        cmocka_unit_test(the_order_is_a_function),
        cmocka_unit_test(in_order_and_in_part),
        cmocka_unit_test(any_order_is_served),
        cmocka_unit_test(little_is_kept),
        cmocka_unit_test(others_parts_are_given_up),
        cmocka_unit_test(few_archives_are_told),
        cmocka_unit_test(cut_meanwhile),
    };
    return RUN_GROUP(tests, set_up);
}
