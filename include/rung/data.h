// SPDX-License-Identifier: Apache-2.0
// Data supply: where samples come from (sources), in which order (samplers), what is done to them
// (transforms) and how they become batches (the loader).
//
//   rung_source *train;
//   rung_loader *loader;
//   rung_source_open(context, "idx", "/usr/share/datasets/fashion-mnist", "train", &train);
//   const rung_transform steps[] = {
//       {.kind = RUNG_TRANSFORM_TO_FLOAT},
//       {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.286f}, .std = {0.353f}}};
//   rung_loader_create(context, train,
//                      &(rung_loader_options){.batch_size = 64, .shuffle = true, .num_workers = 2,
//                                             .transforms = steps, .transform_count = 2}, &loader);
//   rung_batch batch;
//   while (rung_loader_next(loader, &batch) == RUNG_OK) {
//       ... batch.fields[0] is f32 [64, 1, 28, 28], batch.fields[1] is i64 [64] ...
//       rung_loader_release(loader, &batch);
//   }
//
// What a batch holds is a pure function of (source, sampler, seed, transforms, epoch, position):
// not of the number of workers, of timing, or of where the run was started or resumed.
#ifndef RUNG_DATA_H
#define RUNG_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/context.h"
#include "rung/image.h"
#include "rung/status.h"
#include "rung/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------------------------------------
// Randomness of a sample
// ---------------------------------------------------------------------------------------------

// Random numbers as a pure function of an index (Philox4x32-10): number `index` (below 2^32) is the
// same whenever and wherever it is asked for. A small value, copied freely; `key` and `base` are
// private.
typedef struct rung_random {
    uint32_t key[2];
    uint64_t base;
} rung_random;

// 64 random bits.
RUNG_API uint64_t rung_random_u64(const rung_random *random, uint64_t index);
// Uniform in [0, 1), 53 bits.
RUNG_API double rung_random_uniform(const rung_random *random, uint64_t index);
// Standard normal (Box-Muller).
RUNG_API double rung_random_normal(const rung_random *random, uint64_t index);
// Uniform in [0, n), n > 0, without bias. Takes the numbers from *index onward and advances *index
// (nearly always by one).
RUNG_API int64_t rung_random_below(const rung_random *random, int64_t n, uint64_t *index);

// What is being read: handed to sources and transforms with every sample.
typedef struct rung_sample {
    int64_t index;         // in the source
    int64_t epoch;         // from 0
    int64_t occurrence;    // which of its places in the epoch this is: 0 unless with replacement
    int worker;            // 0 ... num_workers - 1, or -1 when next() reads by itself
    rung_random random;    // keyed by (seed, epoch, index, occurrence): what worker_init_fn and
                           // generator are for elsewhere
    uint32_t may_borrow;   // bit f: the source may point field f at memory of its own (see `read`)
    const void *cancelled; // private: see rung_sample_cancelled
} rung_sample;

// True once the loader wants to stop. A source that waits or reads for long asks now and then and
// gives up with any error: rung_loader_destroy returns sooner.
RUNG_API bool rung_sample_cancelled(const rung_sample *sample);

// Writes the error record from a function of one's own (source, transform, collate) and returns
// `status`: `return rung_hook_fail(RUNG_DATA, "%s: no label", path)`.
RUNG_API rung_status rung_hook_fail(rung_status status, const char *fmt, ...) RUNG_PRINTF(2, 3);

// ---------------------------------------------------------------------------------------------
// Sources
// ---------------------------------------------------------------------------------------------

enum { RUNG_MAX_FIELDS = 8 };

// How the three dimensions of an image are ordered. NONE: not an image, transforms refuse it.
typedef enum rung_pixels {
    RUNG_PIXELS_NONE,
    RUNG_PIXELS_CHW,  // planes
    RUNG_PIXELS_HWC,  // interleaved
    RUNG_PIXELS_FILE, // a picture as it lies in its file (JPEG, PNG, WebP, PGM/PPM): see rung_field
} rung_pixels;

// One field of a sample. `shape` is that of one sample (a label is a scalar: rank 0).
//
// RUNG_PIXELS_FILE is u8 of shape [0]: the bytes of a picture, as many as they are. `read` must
// then borrow: it points fields[f].data at them, with 64 bytes behind them that may be read, and
// sets fields[f].shape.dim[0] to their number. Transforms turn it into an image of one size.
typedef struct rung_field {
    const char *name; // "image", "label"; borrowed, lives as long as the source
    rung_dtype dtype;
    rung_shape shape;
    rung_pixels pixels;
} rung_field;

// A source of samples with random access. The struct is open: fill one in (zero what you do not
// use) to bring your own data. Functions get `self`; those called per sample run in several worker
// threads at once, each with a worker state of its own.
typedef struct rung_source rung_source;
struct rung_source {
    const char *name;                   // "idx": for messages
    int64_t count;                      // samples; at least 1 (negative is reserved for streams)
    int field_count;                    // 1 ... RUNG_MAX_FIELDS
    rung_field fields[RUNG_MAX_FIELDS]; // the same for every sample
    int class_count;                    // labels are 0 ... class_count - 1; 0: not known
    const char *const *class_names;     // class_count names, or NULL. Borrowed from the source
    void *self;

    // Makes and frees the state of one worker (an open file, a decoder). Both run in that worker's
    // thread (-1: the thread that calls next()). NULL: workers need no state.
    rung_status (*open)(void *self, int worker, void **state_out);
    void (*close)(void *self, void *state);

    // Reads one sample: writes field f to fields[f].data, which has room for exactly its shape and
    // dtype. Where bit f of sample->may_borrow is set, the function may instead point
    // fields[f].data at memory that stays valid and unchanged until this worker's next read.
    rung_status (*read)(void *self, void *state, const rung_sample *sample, rung_view *fields);

    // Names sample `index` for messages: its file, and its place there. NULL: index only.
    void (*describe)(void *self, int64_t index, char *out, size_t size);

    // Frees the source and the struct itself. NULL: rung_source_destroy leaves it alone.
    void (*destroy)(rung_source *source);

    int reserved; // zero; private to the loader
};

// Frees *source, if it has a `destroy`, and sets it to NULL. NULL and pointers to NULL are
// accepted. Destroy its loaders first. A source in whose `read` a thread is stuck for good
// (rung_loader_destroy warned of it) is left in memory.
RUNG_API void rung_source_destroy(rung_source **source);

// Opens a data set by the name of its format (`data.format`): "idx", "cifar10", "cifar100",
// "image_folder", "list", "tar", "npy", "pack", "tokens" or "text". `path` is its folder. `split`
// is "train" or "test"; of all but the first three also "all", for a path that is one split by
// itself. The caller owns the result.
//
// Of image_folder and tar, the training split is the folder `train` in `path`, or `path` itself
// without one; the test split is the folder `val` or `test`. Of list, they are train.csv, and
// val.csv or test.csv (or .tsv), or `path` itself when that is a file. tar also takes one archive
// or a range of them, shards/name-{000000..000009}.tar; names that begin with train/, and with val/
// or test/, in the archives are splits too. Of npy, see rung_source_npy; `path` may be an .npz
// archive of such arrays. Of pack (rung/pack.h), the splits are train.pack, and val.pack or
// test.pack, or `path` itself when that is a file. Of tokens (rung/text.h), they are the files .bin
// with train, and with val or test in their names, in windows of 1024; of text, the folders or
// files train, train.csv or train.tsv, and so on, with the words of the training split as
// vocabulary and 64 of each example: rung_source_tokens and rung_source_text take other lengths.
// Errors: RUNG_CONFIG for an unknown format or split; RUNG_NOT_FOUND when there is no such split;
// else those of the format below.
RUNG_API rung_status rung_source_open(rung_context *context, const char *format, const char *path,
                                      const char *split, rung_source **source_out);

// IDX image files (MNIST, Fashion-MNIST, KMNIST; http://yann.lecun.com/exdb/mnist), plain or
// gzip-compressed. Fields: "image" u8 [1, height, width] CHW, "label" i64 [].
typedef struct rung_idx_options {
    const char *path;   // folder with train-images-idx3-ubyte[.gz] and so on
    const char *split;  // "train" (default) or "test" (t10k-...)
    const char *images; // the two files by name, instead of path and split
    const char *labels;
    int classes;       // labels must be below; default 10
    const char *known; // name of a known set to compare checksums with ("fashion-mnist"); default:
                       // told from the files and the folder's name
} rung_idx_options;

// Reads both files into memory and checks them: magic, sizes to the byte, equal counts, labels in
// range. The files of a known set are compared with its checksums (XXH3-64 of the uncompressed
// bytes); a difference is one warning in the log. The caller owns the result.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT for another kind of file; RUNG_CORRUPT for a wrong
// length or damaged compression; RUNG_DATA for empty sets, unequal counts and labels out of range.
RUNG_API rung_status rung_source_idx(rung_context *context, const rung_idx_options *options,
                                     rung_source **source_out);

// Reads image number `row` (from 0) of an IDX file of images, plain or gzip-compressed, as a grey
// picture. The caller gives *image_out to rung_image_fini. Errors: those of rung_source_idx;
// RUNG_INVALID when there is no such row.
RUNG_API rung_status rung_idx_image(const char *path, int64_t row, rung_image *image_out);

// CIFAR binary files (https://www.cs.toronto.edu/~kriz/cifar.html). Fields: "image" u8 [3, 32, 32]
// CHW, "label" i64 [].
typedef struct rung_cifar_options {
    const char *path;  // folder with data_batch_1.bin ... (or train.bin), or one such file
    const char *split; // "train" (default) or "test"
    bool coarse;       // CIFAR-100: the 20 coarse labels instead of the 100 fine ones
} rung_cifar_options;

// Reads the files into memory and checks sizes and labels. Class names come from batches.meta.txt
// (or fine_label_names.txt, coarse_label_names.txt) beside them. The caller owns the result.
// Errors: as for rung_source_idx.
RUNG_API rung_status rung_source_cifar10(rung_context *context, const rung_cifar_options *options,
                                         rung_source **source_out);
RUNG_API rung_status rung_source_cifar100(rung_context *context, const rung_cifar_options *options,
                                          rung_source **source_out);

// ---- pictures as files. Fields: "image" (RUNG_PIXELS_FILE), "label" i64 []. A picture's file is
// opened when it is read: one that is missing, cut or damaged is that sample's error.

// One folder for each class: torchvision's ImageFolder. Classes are the folders in `path` in the
// order of their names' bytes, pictures the files in and below them that end in .jpg .jpeg .png
// .ppm .bmp .pgm .tif .tiff or .webp, in any case. How many others are left out is told in the log.
// Names need not be UTF-8: in class names and messages odd bytes are escaped.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_DATA without classes or for a class without pictures.
RUNG_API rung_status rung_source_image_folder(rung_context *context, const char *path,
                                              rung_source **source_out);

// A file with a row for each picture: its path (relative to the file's folder), and its label.
// Separated by tabs if the first row has one, else by commas; quoted as in RFC 4180. Labels that
// are all whole numbers are class numbers, others the names of classes in the order of their bytes.
// With more columns, each is a class and 0 or 1 in every row: "label" is then f32 [classes], named
// by the header. A first row is a header unless its first field ends as pictures' names do or is a
// file. Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT, RUNG_DATA naming the line.
RUNG_API rung_status rung_source_list(rung_context *context, const char *path,
                                      rung_source **source_out);

// Tar archives in WebDataset's layout, read at random: entries whose names are equal up to
// the first dot of the last part are one sample, of which the picture and .cls (a number or a name)
// count. Where no sample has .cls, the label is the folder that the picture lies in or, without
// folders, what follows the first _ of its name. `path` is an archive, a range of them with
// {000000..000009}, or a folder of archives. An entry __classes__ names the classes of numbers, one
// a line.
//
// Archives compressed by gzip, bzip2 or zstd are unpacked into memory, all together up to 1 GiB;
// larger ones are read as rung_source_tar_stream does.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT when it is no archive; RUNG_CORRUPT when it is cut;
// RUNG_DATA for a sample without label or with two.
RUNG_API rung_status rung_source_tar(rung_context *context, const char *path,
                                     rung_source **source_out);

// The same archives, plain or compressed, each read from its beginning to its end: for storage on
// which random reads are slow. They are read once to make the index. Workers share the archives;
// any order gives each sample once, but only rung_sampler_stream's keeps what is held in memory
// small.
RUNG_API rung_status rung_source_tar_stream(rung_context *context, const char *path,
                                            rung_source **source_out);

// Pictures and labels in two .npy files, read into memory: u8 or f32 of [N, H, W], [N, C, H, W] or
// [N, H, W, C] with 1 to 4 channels; u8, i32 or i64 of [N]. Fields: "image", "label" i64 []. By
// format and path, the folder's x_train.npy and y_train.npy, or train_images.npy and
// train_labels.npy; for the test split the same with test or val; for all, images.npy and
// labels.npy. Errors: those of rung_npy_read; RUNG_MISMATCH, RUNG_DATA.
RUNG_API rung_status rung_source_npy(rung_context *context, const char *images, const char *labels,
                                     rung_source **source_out);

// One array of rung_source_arrays: `all` is [count, ...], one sample after the other.
typedef struct rung_array_field {
    const char *name; // copied
    rung_view all;
    rung_pixels pixels; // for [count, c, h, w] or [count, h, w, c]
} rung_array_field;

// Arrays in memory. All have the same first dimension. With `copy` the data are copied, else
// borrowed until the source is destroyed. `class_count` may be 0. The caller owns the result.
// Errors: RUNG_INVALID, RUNG_MISMATCH (unequal counts), RUNG_DATA (empty), RUNG_NO_MEMORY.
RUNG_API rung_status rung_source_arrays(rung_context *context, const rung_array_field *fields,
                                        int field_count, int class_count, bool copy,
                                        rung_source **source_out);

// Generated data that can be learned: each class has a fixed random prototype (for images in blocks
// of an eighth of their size), a sample is the mean of its class's prototype and uniform noise of
// its own. Sample i belongs to class i mod classes. Fields: "image" (u8, or f32 in [0, 1]), "label"
// i64 [].
typedef struct rung_synthetic_options {
    int64_t count;    // samples
    rung_shape shape; // of one image; CHW if of rank 3
    rung_dtype dtype; // RUNG_U8 or RUNG_F32
    int classes;
    uint64_t seed;
    double delay; // seconds that each read takes more (on the context's clock): slow storage
} rung_synthetic_options;

// The caller owns the result. Errors: RUNG_INVALID, RUNG_NO_MEMORY.
RUNG_API rung_status rung_source_synthetic(rung_context *context,
                                           const rung_synthetic_options *options,
                                           rung_source **source_out);

// ---------------------------------------------------------------------------------------------
// Transforms
// ---------------------------------------------------------------------------------------------

// A step that a sample goes through on its way into the batch. Steps run in the order of the list,
// with torchvision's meaning; neighbouring built-in steps are fused into one pass that reads the
// source's bytes and writes the batch. Values are equal to the last bit to those of the steps done
// one by one in float32. Images come out as [channels, height, width].
//
// Pictures (RUNG_PIXELS_FILE) differ in size. They are decoded on the way: a step `decode` in front
// says how (without one: to 3 channels, turned as the camera noted). Steps that move or resize work
// on 8-bit pixels, and only what the result needs is decoded and worked out. One of resize with two
// sizes, center_crop, random_crop and random_resized_crop must make the size known before the steps
// that change values. Resizing is Pillow's, to the last bit.
typedef enum rung_transform_kind {
    // u8 to f32, divided by 255; does nothing to f32.
    RUNG_TRANSFORM_TO_FLOAT = 1,
    // (x - mean[c]) / std[c]; f32 only.
    RUNG_TRANSFORM_NORMALIZE,
    // Pads by `padding` on all sides, then cuts height x width at a random place.
    RUNG_TRANSFORM_RANDOM_CROP,
    // Mirrors left and right with `probability`.
    RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP,
    // Zeros around the image up to height x width, the smaller half on the left and on top.
    RUNG_TRANSFORM_PAD,
    // One channel becomes `channels` equal ones (torchvision: Grayscale(3) of a grey image).
    RUNG_TRANSFORM_REPEAT_CHANNELS,
    // Your own: `apply`.
    RUNG_TRANSFORM_CUSTOM,
    // How a picture is decoded: `channels` 1 or 3 (0: 3), `keep_orientation`. Only as the first.
    RUNG_TRANSFORM_DECODE,
    // To `height` x `width`; without `width` the shorter side becomes `height` and the other keeps
    // the aspect. By `filter`, antialiased.
    RUNG_TRANSFORM_RESIZE,
    // The middle `height` x `width`; zeros around where the image is smaller.
    RUNG_TRANSFORM_CENTER_CROP,
    // A random part of `scale` times the area and of `ratio` width to height, resized to `height` x
    // `width`: 10 tries, then the middle, as torchvision's.
    RUNG_TRANSFORM_RANDOM_RESIZED_CROP,
    // Brightness, contrast and saturation by factors from 1 - x to 1 + x (not below 0), the hue by
    // -x to x of the colour wheel, in a random order; on 8-bit pixels. Members that are 0 do
    // nothing.
    RUNG_TRANSFORM_COLOR_JITTER,
    // Grey with `probability`, in as many channels.
    RUNG_TRANSFORM_RANDOM_GRAYSCALE,
    // With `probability`, sets a random rectangle of `scale` times the area ({0.02, 0.33}) and of
    // `ratio` height to width ({0.3, 3.3}) to `value`: 10 tries, else nothing.
    RUNG_TRANSFORM_RANDOM_ERASING,
} rung_transform_kind;

// How pixels between pixels are found: the triangle filter, or Keys' cubic with a = -1/2.
typedef enum rung_filter {
    RUNG_FILTER_BILINEAR,
    RUNG_FILTER_BICUBIC,
} rung_filter;

// What random crop puts outside of the image.
typedef enum rung_crop_padding {
    RUNG_CROP_PADDING_ZERO,    // zeros
    RUNG_CROP_PADDING_REFLECT, // the image mirrored at its edge pixels, which are not repeated
} rung_crop_padding;

enum { RUNG_MAX_IMAGE_CHANNELS = 16 };

// A transform of one's own: `in` to `out`, both contiguous and of the declared shapes. `random` is
// for this step of this sample. Called by several threads at once.
typedef rung_status (*rung_transform_fn)(void *user, const rung_sample *sample,
                                         const rung_random *random, const rung_view *in,
                                         rung_view *out);

// One step. Zero is the default of every member. The random choices of a step depend on (seed,
// epoch, sample, occurrence), on its kind and on how many steps of that kind stand before it: not
// on its other neighbours.
typedef struct rung_transform {
    rung_transform_kind kind;
    int field; // which field of the source it applies to
    int height, width;
    int padding;
    rung_crop_padding padding_mode;
    float probability; // 0 means 0.5 (of grayscale 0.1); use a negative number for never
    int channels;
    float mean[RUNG_MAX_IMAGE_CHANNELS]; // as many as the image has channels
    float std[RUNG_MAX_IMAGE_CHANNELS];
    rung_filter filter;
    double scale[2], ratio[2]; // zeros mean {0.08, 1} and {3/4, 4/3}
    bool keep_orientation;     // leave pictures as the camera stored them
    float brightness, contrast, saturation, hue;
    float value;
    // RUNG_TRANSFORM_CUSTOM
    const char *name;         // for messages
    const rung_field *output; // dtype, shape and pixels of the result; NULL: those of the input
    rung_transform_fn apply;
    void *user;
} rung_transform;

// ---------------------------------------------------------------------------------------------
// Samplers
// ---------------------------------------------------------------------------------------------

// One place of an epoch's order.
typedef struct rung_draw {
    int64_t sample;     // index in the source
    int64_t occurrence; // which of its places in the epoch this is: 0 unless with replacement
} rung_draw;

// An order of samples for each epoch: position -> sample is a pure function of (seed, epoch,
// position), so that any place can be returned to. The struct is open, like rung_source. The order
// is that of all ranks together: the loader takes a rank's part of each batch.
typedef struct rung_sampler rung_sampler;
struct rung_sampler {
    const char *name;
    int64_t count; // positions in an epoch, at least 1
    void *self;
    // Prepares an epoch's order (an index array, shared by all workers) and frees it. NULL: no
    // preparation. At most one order of a loader lives at a time.
    rung_status (*begin)(void *self, int64_t epoch, void **order_out);
    void (*end)(void *self, void *order);
    // The draw at `position` (0 ... count - 1).
    void (*at)(void *self, const void *order, int64_t position, rung_draw *draw_out);
    // As in rung_source.
    void (*destroy)(rung_sampler *sampler);
};

// Frees *sampler, if it has a `destroy`, and sets it to NULL. NULL is accepted.
RUNG_API void rung_sampler_destroy(rung_sampler **sampler);

// 0, 1, 2, ... in each epoch. Errors: RUNG_DATA (count below 1), RUNG_NO_MEMORY.
RUNG_API rung_status rung_sampler_sequential(int64_t count, rung_sampler **sampler_out);

// A uniformly random permutation of 0 ... count - 1, another in each epoch: Fisher-Yates
// (Durstenfeld 1964) on Philox numbers keyed by (seed, epoch). Costs 4 bytes a sample (8 from 2^31
// samples on) and about 10 ms an epoch for a million.
RUNG_API rung_status rung_sampler_random(int64_t count, uint64_t seed, rung_sampler **sampler_out);

// The samples of a list (copied; a sample may stand there more than once), in its order or, with
// `shuffle`, in another random order in each epoch.
RUNG_API rung_status rung_sampler_subset(const int64_t *samples, int64_t count, bool shuffle,
                                         uint64_t seed, rung_sampler **sampler_out);

// `draws` samples in an epoch, each with a probability in proportion to its weight (count of them,
// copied; 0 is never drawn), as PyTorch's WeightedRandomSampler. With replacement a sample may come
// several times: each is an occurrence of its own, augmented on its own. Without, those that are
// left are drawn from one after the other. Another order in each epoch. Costs 16 bytes a draw.
// Errors: RUNG_DATA for weights that are negative, not finite or all 0, and for more draws without
// replacement than samples that have a weight.
RUNG_API rung_status rung_sampler_weighted(const double *weights, int64_t count, int64_t draws,
                                           bool replacement, uint64_t seed,
                                           rung_sampler **sampler_out);

enum { RUNG_STREAM_LANES = 64 };

// Zero is the default of every member.
typedef struct rung_stream_options {
    bool shuffle;   // another random order in each epoch; else that of the archives
    int64_t buffer; // samples that are shuffled among each other; default 1000
    int lanes;      // archives that are read in turn, at most RUNG_STREAM_LANES; default 8
    uint64_t seed;
    int rank, ranks;  // archives rank, rank + ranks, ... are this rank's; default 0 of 1
    const bool *keep; // by sample, copied: false leaves it out; NULL: all
} rung_stream_options;

// The order of a source whose archives are read as streams (borrowed), as a shuffle buffer gives
// it: the archives in a random order, `lanes` of them in turn, through a buffer of which a random
// sample comes next. Worked out on numbers beforehand, so that it depends on nothing else than the
// options and the epoch, and any place can be returned to. Over all ranks each sample comes once an
// epoch. Errors: RUNG_INVALID for another source; RUNG_DATA for fewer archives than ranks.
RUNG_API rung_status rung_sampler_stream(const rung_source *source,
                                         const rung_stream_options *options,
                                         rung_sampler **sampler_out);

// Another sampler (borrowed) with a multiple of `multiple` positions, for ranks that must all have
// as much: padded by beginning again, as PyTorch's DistributedSampler, or with `drop` without the
// last ones. Neither is needed for evaluation: a loader of several ranks cuts each batch into parts
// that may differ by one, so that each sample is evaluated once. Errors: RUNG_DATA when dropping
// leaves nothing.
RUNG_API rung_status rung_sampler_even(const rung_sampler *sampler, int64_t multiple, bool drop,
                                       rung_sampler **sampler_out);

// An order whose batches of `batch` hold samples of similar length (`lengths`, count of them,
// copied), so that little is padded: shuffled, sorted in pools of 100 batches, and the batches
// shuffled; without `shuffle` sorted as a whole. An epoch's short batch comes last.
RUNG_API rung_status rung_sampler_by_length(const int64_t *lengths, int64_t count, int64_t batch,
                                            bool shuffle, uint64_t seed,
                                            rung_sampler **sampler_out);

// Chooses about `share` of a source's samples by a hash (XXH3, 64 bits) of their names: sets
// held_out[i] for each. The name of a picture is its path in the data set, the same in folders,
// archives and packs of them; of other sources what `describe` tells, without `root` in front
// (which may be NULL). A sample's side depends on its name alone: not on what is added or removed
// beside it, a seed, or where the data set lies. A larger share holds all of a smaller one. Errors:
// RUNG_UNSUPPORTED when samples have no names.
RUNG_API rung_status rung_split_by_name(const rung_source *source, const char *root, double share,
                                        bool *held_out);

// ---------------------------------------------------------------------------------------------
// Loader
// ---------------------------------------------------------------------------------------------

typedef struct rung_loader rung_loader;

// A batch. It stays valid until rung_loader_release (or _destroy); `fields` point into the loader's
// memory, aligned to 64 bytes, and may be written to.
typedef struct rung_batch {
    int field_count;
    rung_view fields[RUNG_MAX_FIELDS]; // [count, ...]
    int64_t count;          // samples here; less than asked for in the last batch of an epoch
    int64_t global_count;   // samples of this batch on all ranks together
    int64_t begin;          // place of the first sample here among those
    int64_t epoch;          // from 0
    int64_t position;       // in the epoch's order, of the whole batch's first sample
    const int64_t *samples; // `count` indices in the source
    const rung_draw *draws; // the same with their occurrences
    int64_t left_out;       // bad samples that are not among them (skip_bad): the next batch begins
                            // at position + global_count + left_out
    bool is_last_of_epoch;
    void *slot;      // private
    uint64_t ticket; // private
} rung_batch;

// Called on each full batch, in the worker that finished it: may change values in place (MixUp) and
// make the views smaller. `random` is keyed by (seed, epoch, position).
typedef rung_status (*rung_collate_fn)(void *user, const rung_random *random, rung_batch *batch);

// MixUp and CutMix of whole batches, as torchvision's transforms v2 do them: each image is mixed
// with the one before it in the batch (the first with the last) by a number lambda from Beta(alpha,
// alpha), drawn by (seed, epoch, position); with both, one of them is chosen for each batch. The
// source's first field must come out as f32 images, and a field "label" be i64. Batches get one
// more field, "target" f32 [classes]: lambda for a sample's own class and 1 - lambda for that of
// the other; of neither alpha, 1 for its own.
typedef struct rung_mix {
    double mixup_alpha;  // 0: no MixUp
    double cutmix_alpha; // 0: no CutMix
    int classes;         // at least 1
} rung_mix;

// Called from next(), in the order of the batches, when a sample is left out for the first time.
// `message` names the sample and the reason.
typedef void (*rung_bad_sample_fn)(void *user, int64_t sample, const char *message);

// Where batches live, for memory that a device can copy from (pinned).
typedef struct rung_loader_memory {
    void *user;
    rung_status (*allocate)(void *user, size_t bytes, void **memory_out); // aligned to 64
    void (*release)(void *user, void *memory);
} rung_loader_memory;

// PyTorch's DataLoader arguments, by its names. Zero is the default of every member except
// batch_size. Workers are always persistent and use one thread each.
typedef struct rung_loader_options {
    int64_t batch_size;          // of all ranks together; required
    bool shuffle;                // rung_sampler_random with `seed`; else in order
    const rung_sampler *sampler; // borrowed; instead of shuffle
    uint64_t seed;               // of shuffle and of all transforms
    int num_workers;             // worker threads; 0: next() reads by itself
    int prefetch_factor;         // batches ahead per worker; default 2
    int worker_nice;             // 0 to 19 more than the process: where threads that compute need
                                 // all cores, workers that wait for one do not hold them up
    bool drop_last;              // leave out an epoch's short last batch
    double timeout;              // seconds that next() waits for a batch; 0: no limit
    rung_collate_fn collate;
    void *collate_user;
    const rung_transform *transforms; // copied; what their pointers point to is borrowed
    int transform_count;
    const rung_mix *mix;              // copied; NULL: none. Done before `collate`
    const rung_loader_memory *memory; // copied; NULL: the heap
    bool skip_bad; // leave out samples that cannot be read (missing, cut, damaged, of a bad kind)
                   // instead of failing: batches become smaller by them. Only for world 1
    double bad_limit; // share of all samples from 0 to 1; once more were left out, next() fails
    rung_bad_sample_fn on_bad; // may be NULL
    void *on_bad_user;
    int hold;      // batches the consumer may hold at once; default 1 (2 without workers)
    bool preload;  // read epoch 0 once at the first next() and serve its batches in every epoch,
                   // from memory, without work: the ceiling of supply (same order and same
                   // augmentation in each epoch; hold has no limit)
    bool defer;    // leave the steps of field 0 that come after decoding, resizing and colours to
                   // the consumer's device: batches hold u8
    bool quiet;    // no remarks in the log about these options
    int64_t epoch; // where to begin
    int64_t position;
    int64_t end_epoch; // no sample of this epoch or later is read; 0: no end
    // A rank's part of each batch: the batch is cut into `shards` (a multiple of `world`; default
    // `world`), whose sizes differ by at most one, larger ones first, and each rank has as many of
    // them, side by side. A part may be empty.
    int rank, world; // default 0 of 1
    int shards;
} rung_loader_options;

// Makes a loader. Nothing is read before the first rung_loader_next or rung_loader_start. `source`
// (and the sampler) are borrowed until the loader is destroyed; the caller owns the result.
// More workers than cores are one warning; a timeout without workers is ignored, with a notice.
// Errors: RUNG_INVALID, RUNG_MISMATCH for options and transforms that do not fit; RUNG_DATA for an
// empty source or drop_last with too few samples; RUNG_NO_MEMORY.
RUNG_API rung_status rung_loader_create(rung_context *context, rung_source *source,
                                        const rung_loader_options *options,
                                        rung_loader **loader_out);

// Stops and joins the workers and frees *loader; sets it to NULL. NULL is accepted. All batches
// become invalid. Returns at once unless a worker is in the middle of a read; one that does not
// come back within 2 seconds is left behind with a warning that names the sample.
RUNG_API void rung_loader_destroy(rung_loader **loader);

// Lets the workers begin before the first rung_loader_next. Does nothing when they have begun.
RUNG_API rung_status rung_loader_start(rung_loader *loader);

// The next batch, in order, epoch after epoch. Call from one thread at a time.
// Errors: that of the failing sample, prefixed with its index, file, worker and epoch (when several
// failed, the first in order, then the others; the loader gives the same error until
// rung_loader_seek); RUNG_TIMEOUT naming the stuck sample; RUNG_INVALID past end_epoch, or when all
// slots have been held for long (30 s, or the timeout).
RUNG_API rung_status rung_loader_next(rung_loader *loader, rung_batch *batch_out);

// Gives a batch back, from any thread, in any order: as soon as nobody reads it any more (after the
// copy's event). *batch is zeroed; a zeroed batch is accepted.
RUNG_API void rung_loader_release(rung_loader *loader, rung_batch *batch);

// Continues at `position` of `epoch`. No skipped sample is read. Batches that are held stay valid.
// A position with no batch left is that epoch's end, so the next epoch begins.
// Errors: RUNG_INVALID out of range; RUNG_TIMEOUT when a worker does not finish its sample within
// the timeout (30 s without): next() then fails until another seek succeeds.
RUNG_API rung_status rung_loader_seek(rung_loader *loader, int64_t epoch, int64_t position);

// What is known before anything was read.
typedef struct rung_loader_info {
    int64_t samples_per_epoch; // delivered, on all ranks together
    int64_t batches_per_epoch;
    int64_t last_batch; // samples of an epoch's last batch (all ranks): batch_size or what is left
    int64_t dropped;    // samples left out by drop_last in each epoch
    int workers;
    int slots;         // batches that exist: ahead plus held
    size_t slot_bytes; // of one
    int field_count;
    rung_field fields[RUNG_MAX_FIELDS]; // of one sample in a batch, after the transforms
} rung_loader_info;

RUNG_API void rung_loader_describe(const rung_loader *loader, rung_loader_info *info_out);

// What a worker's time goes to: the first four are work, SLOT and IDLE are waiting. COPY is the
// consumer's, which tells it by rung_loader_count_copy.
typedef enum rung_loader_stage {
    RUNG_STAGE_READ,      // the source's read: waiting for storage
    RUNG_STAGE_DECODE,    // of pictures as files
    RUNG_STAGE_TRANSFORM, // all other transforms
    RUNG_STAGE_COLLATE,
    RUNG_STAGE_SLOT, // waiting for a free slot: all batches are ready or held
    RUNG_STAGE_IDLE, // waiting for another worker, or for more to do
    RUNG_STAGE_COPY, // to the device
    RUNG_STAGES,
} rung_loader_stage;

// "read", "decode", ... NULL past the last.
RUNG_API const char *rung_loader_stage_name(int stage);

// Counted since the loader was made. Times are the context's clock's.
typedef struct rung_loader_statistics {
    int64_t samples;             // delivered by next()
    int64_t batches;             // delivered by next()
    int64_t reads;               // samples read (those ahead included)
    int64_t bad_samples;         // different ones left out of delivered batches (skip_bad)
    double wait_seconds;         // that next() took
    double busy_seconds;         // of all workers (or of next() without workers) reading
    int queue_depth;             // batches ready now
    double mean_queue_depth;     // ready when next() was called
    double seconds[RUNG_STAGES]; // by stage, of all workers together
    double worker_seconds;       // that workers have been there, all together; without workers, the
                                 // time since the first next()
    int64_t read_bytes;          // that the source gave: of pictures as files, the files
    int64_t batch_bytes;         // of the batches delivered
    int64_t copy_bytes;          // told by rung_loader_count_copy
} rung_loader_statistics;

RUNG_API void rung_loader_measure(rung_loader *loader, rung_loader_statistics *statistics_out);

// The same of one worker (0 ... info.workers - 1; 0 too when next() reads by itself).
typedef struct rung_worker_statistics {
    int64_t reads, read_bytes;
    double seconds[RUNG_STAGES];
    double worker_seconds; // since it began
    double busy_share;     // of that, in [0, 1]
} rung_worker_statistics;

// False when there is no such worker, or data are served from memory (preload).
RUNG_API bool rung_loader_measure_worker(rung_loader *loader, int worker,
                                         rung_worker_statistics *statistics_out);

// Adds a copy of `bytes` out of a batch to the statistics. From any thread.
RUNG_API void rung_loader_count_copy(rung_loader *loader, double seconds, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
