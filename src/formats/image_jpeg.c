// SPDX-License-Identifier: Apache-2.0
// JPEG through libjpeg-turbo. Only the rows and columns that are asked for are decoded: rows above
// are entropy-decoded alone, rows below not at all, and of the columns only the blocks that are
// needed are transformed. Chroma that is stored at half the size is interpolated from its
// neighbours, so that two columns more on either side are decoded: then every value is that of the
// whole picture.
//
// libjpeg's errors come by longjmp: what must survive lies in the struct.
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// jpeglib.h needs size_t and FILE.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"
#include "formats/image_file.h"
#include "formats/jpeg_rows.h"

enum { SCANS_MAX = 500, ROWS_AT_ONCE = 16, MARGIN = 2 };

struct rungi_jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
    bool ended; // libjpeg wanted more than there is
    const unsigned char *data;
    size_t size;
    const char *name;
    rungi_block rows;
    // Of a JPEG with a restart marker behind each row of blocks, where decoding begins anew:
    rungi_block header;           // another header, and
    const unsigned char *segment; // what follows it; NULL: nothing was passed over
    int shift;                    // what the markers' numbers differ by from those expected
    bool by_row;                  // one stands behind each row of blocks
};

static rungi_jpeg *owner(j_common_ptr c)
{
    return c->client_data;
}

// ---- what libjpeg calls

static void on_error(j_common_ptr c)
{
    rungi_jpeg *jpeg = owner(c);
    c->err->format_message(c, jpeg->message);
    longjmp(jpeg->jump, 1);
}

// Warnings are errors, except those after which every pixel is right all the same.
static void on_message(j_common_ptr c, int level)
{
    int code = c->err->msg_code;
    if (level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR ||
        code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC || code == JWRN_TOO_MUCH_DATA)
        return;
    on_error(c);
}

static void on_progress(j_common_ptr c)
{
    // A small file can hold very many scans of a large picture.
    if (c->is_decompressor && ((j_decompress_ptr)c)->input_scan_number > SCANS_MAX) {
        snprintf(owner(c)->message, JMSG_LENGTH_MAX, "more than %d scans", SCANS_MAX);
        longjmp(owner(c)->jump, 1);
    }
}

static void start_source(j_decompress_ptr c)
{
    (void)c;
}

// libjpeg looks ahead: the end alone is no error. What is really missing it notices at the marker.
static boolean fill_source(j_decompress_ptr c)
{
    static const JOCTET end[] = {0xff, JPEG_EOI};
    rungi_jpeg *jpeg = owner((j_common_ptr)c);
    if (jpeg->segment && c->src->next_input_byte >= jpeg->header.data &&
        c->src->next_input_byte <= jpeg->header.data + jpeg->header.size) {
        c->src->next_input_byte = jpeg->segment;
        c->src->bytes_in_buffer = (size_t)(jpeg->data + jpeg->size - jpeg->segment);
        return TRUE;
    }
    jpeg->ended = true;
    c->src->next_input_byte = end;
    c->src->bytes_in_buffer = sizeof end;
    return TRUE;
}

static void skip_source(j_decompress_ptr c, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > c->src->bytes_in_buffer) {
        fill_source(c);
        return;
    }
    c->src->next_input_byte += count;
    c->src->bytes_in_buffer -= (size_t)count;
}

// The markers of what is decoded count on from where it begins.
static boolean on_restart(j_decompress_ptr c, int desired)
{
    if (c->unread_marker == JPEG_RST0 + (desired + owner((j_common_ptr)c)->shift) % 8) {
        c->unread_marker = 0;
        if (owner((j_common_ptr)c)->by_row)
            c->restart_interval = 0;
        return TRUE;
    }
    return jpeg_resync_to_restart(c, desired);
}

// ---- life

rung_status rungi_jpeg_create(rungi_jpeg **jpeg_out)
{
    rungi_jpeg *jpeg = calloc(1, sizeof *jpeg);
    RUNG_CHECK(jpeg, RUNG_NO_MEMORY, "no memory for a JPEG decoder");
    jpeg->c.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = on_error;
    jpeg->errors.emit_message = on_message;
    jpeg->source = (struct jpeg_source_mgr){.init_source = start_source,
                                            .fill_input_buffer = fill_source,
                                            .skip_input_data = skip_source,
                                            .resync_to_restart = on_restart,
                                            .term_source = start_source};
    jpeg->progress.progress_monitor = on_progress;
    jpeg->c.client_data = jpeg;
    if (setjmp(jpeg->jump)) {
        free(jpeg);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a JPEG decoder");
    }
    jpeg_create_decompress(&jpeg->c);
    jpeg->c.client_data = jpeg;
    jpeg->c.src = &jpeg->source;
    jpeg->c.progress = &jpeg->progress;
    *jpeg_out = jpeg;
    return RUNG_OK;
}

void rungi_jpeg_destroy(rungi_jpeg **jpeg)
{
    if (!*jpeg)
        return;
    jpeg_destroy_decompress(&(*jpeg)->c);
    free((*jpeg)->rows.data);
    free((*jpeg)->header.data);
    free(*jpeg);
    *jpeg = NULL;
}

// ---- the header

// Reads the header; false when libjpeg jumped out.
static bool read_header(rungi_jpeg *jpeg)
{
    if (setjmp(jpeg->jump))
        return false;
    jpeg_abort_decompress(&jpeg->c);
    jpeg->ended = false;
    jpeg->segment = NULL;
    jpeg->shift = 0;
    jpeg->by_row = false;
    jpeg->source.next_input_byte = jpeg->data;
    jpeg->source.bytes_in_buffer = jpeg->size;
    jpeg_read_header(&jpeg->c, TRUE);
    return true;
}

static rung_status refuse(rungi_jpeg *jpeg, const char *where)
{
    jpeg_abort_decompress(&jpeg->c);
    if (jpeg->ended)
        return RUNG_FAIL(RUNG_CORRUPT, "%s: cut: the JPEG goes on after %zu bytes%s", jpeg->name,
                         jpeg->size, where);
    return RUNG_FAIL(RUNG_FORMAT, "%s: damaged JPEG%s: %s", jpeg->name, where, jpeg->message);
}

// The orientation in the first APP1 segment that is EXIF's.
static void find_orientation(const unsigned char *data, size_t size, rungi_image_info *info)
{
    info->orientation = 1;
    for (size_t at = 2; at + 4 <= size && data[at] == 0xff;) {
        int marker = data[at + 1];
        if (marker == 0xff) { // a fill byte
            at++;
            continue;
        }
        size_t length = (size_t)data[at + 2] << 8 | data[at + 3];
        if (marker == 0xda || length < 2 || length > size - at - 2)
            return;
        if (marker == 0xe1 && length >= 8 && memcmp(data + at + 4, "Exif\0", 6) == 0) {
            int found = rungi_exif_orientation(data + at + 10, length - 8);
            info->bad_orientation = found < 0;
            info->orientation = found > 0 ? found : 1;
            return;
        }
        at += 2 + length;
    }
}

// Has the picture's data an end? Within them no FF D9 occurs; what follows the end is no concern.
static bool has_end(const rungi_jpeg *jpeg)
{
    const unsigned char *scan = jpeg->source.next_input_byte;
    const unsigned char *end = jpeg->data + jpeg->size;
    if (jpeg->ended)
        return false;
    while (end - scan >= 2) {
        const unsigned char *found = memrchr(scan, 0xff, (size_t)(end - scan) - 1);
        if (!found)
            return false;
        if (found[1] == JPEG_EOI)
            return true;
        end = found + 1;
    }
    return false;
}

// Decodes all rows and throws them away; false when libjpeg jumped out.
static bool try_rows(rungi_jpeg *jpeg)
{
    struct jpeg_decompress_struct *c = &jpeg->c;
    if (setjmp(jpeg->jump))
        return false;
    jpeg_start_decompress(c);
    JSAMPROW row = jpeg->rows.data;
    while (c->output_scanline < c->output_height)
        jpeg_read_scanlines(c, &row, 1);
    return true;
}

// A file without its end: are all rows there none the less?
static rung_status check_cut(rungi_jpeg *jpeg)
{
    struct jpeg_decompress_struct *c = &jpeg->c;
    if (jpeg->ended || jpeg_has_multiple_scans(c)) {
        jpeg->ended = true;
        return refuse(jpeg, ", its last scans are missing");
    }
    RUNG_CHECK(rungi_block_reserve(&jpeg->rows, (size_t)c->image_width * 4 + 64), RUNG_NO_MEMORY,
               "%s: no memory to decode it", jpeg->name);
    if (!try_rows(jpeg)) {
        char where[64];
        snprintf(where, sizeof where, ", in row %u of %u", c->output_scanline, c->image_height);
        return refuse(jpeg, where);
    }
    return read_header(jpeg) ? RUNG_OK : refuse(jpeg, ", within its header");
}

static rung_status check_memory(const rungi_jpeg *jpeg)
{
    const struct jpeg_decompress_struct *c = &jpeg->c;
    uint64_t bytes = 0;
    if (!jpeg_has_multiple_scans((j_decompress_ptr)(uintptr_t)c))
        return RUNG_OK;
    for (int i = 0; i < c->num_components; i++)
        bytes += (uint64_t)c->comp_info[i].width_in_blocks * c->comp_info[i].height_in_blocks *
                 sizeof(JBLOCK);
    RUNG_CHECK(bytes <= RUNGI_IMAGE_WORK_MAX, RUNG_UNSUPPORTED,
               "%s: a progressive JPEG of %u x %u takes %llu MiB of memory to decode, above %d: "
               "store it as baseline JPEG",
               jpeg->name, c->image_width, c->image_height, (unsigned long long)(bytes >> 20),
               RUNGI_IMAGE_WORK_MAX >> 20);
    return RUNG_OK;
}

rung_status rungi_jpeg_begin(rungi_jpeg *jpeg, const unsigned char *data, size_t size,
                             const char *name, rungi_image_info *info)
{
    struct jpeg_decompress_struct *c = &jpeg->c;
    jpeg->data = data;
    jpeg->size = size;
    jpeg->name = name;
    if (!read_header(jpeg))
        return refuse(jpeg, ", within its header");
    RUNG_TRY(rungi_image_check_size(name, c->image_width, c->image_height));
    RUNG_TRY(check_memory(jpeg));
    RUNG_CHECK(c->jpeg_color_space != JCS_UNKNOWN && c->num_components != 2, RUNG_UNSUPPORTED,
               "%s: a JPEG with %d channels of unknown colour: store it as RGB", name,
               c->num_components);
    if (!has_end(jpeg))
        RUNG_TRY(check_cut(jpeg));
    info->width = (int)c->image_width;
    info->height = (int)c->image_height;
    info->channels = c->num_components == 1 ? 1 : 3;
    info->colour = c->num_components == 1   ? RUNGI_COLOUR_GREY
                   : c->num_components == 4 ? RUNGI_COLOUR_CMYK
                                            : RUNGI_COLOUR_RGB;
    find_orientation(data, size, info);
    return RUNG_OK;
}

// ---- pixels

// What Adobe's programs write, and Pillow expects: inverted CMYK. Rounded as Pillow's.
static void rgb_of_cmyk(uint8_t *row, size_t count)
{
    uint8_t *to = row;
    for (size_t i = 0; i < count; i++, to += 3) {
        unsigned k = row[4 * i + 3];
        for (int j = 0; j < 3; j++) {
            unsigned t = (255u - row[4 * i + (size_t)j]) * k + 128;
            unsigned ink = ((t >> 8) + t) >> 8;
            to[j] = (uint8_t)(k > ink ? k - ink : 0);
        }
    }
}

// ---- restart markers
//
// Decoding begins at the last marker that is far enough above the first row that is wanted: libjpeg
// is given another header, a marker, and what follows it in the file.
//
// libjpeg decodes Huffman codes in a slower way wherever markers may come (by a fifth). Where one
// stands behind each row of blocks, it is told so only at the beginning of a row: restart_interval
// is set before a call that may begin one, and cleared in on_restart, which is called because the
// numbers of the markers never are what libjpeg expects.

// Rows of pixels between two markers; 0 when decoding cannot begin at them.
static int rows_of_segment(const struct jpeg_decompress_struct *c, bool *each_row)
{
    bool grey = c->num_components == 1;
    unsigned mcus = grey ? c->comp_info[0].width_in_blocks
                         : (c->image_width + (unsigned)c->max_h_samp_factor * DCTSIZE - 1) /
                               ((unsigned)c->max_h_samp_factor * DCTSIZE);
    if (c->progressive_mode || c->arith_code || c->restart_interval == 0 ||
        c->comps_in_scan != c->num_components || c->restart_interval % mcus != 0)
        return 0;
    *each_row = c->restart_interval == mcus && (!grey || c->max_v_samp_factor == 1);
    return (int)(c->restart_interval / mcus) * DCTSIZE * (grey ? 1 : c->max_v_samp_factor);
}

// Reads the other header; false when libjpeg jumped out.
static bool read_cut_header(rungi_jpeg *jpeg, size_t size)
{
    if (setjmp(jpeg->jump))
        return false;
    jpeg_abort_decompress(&jpeg->c);
    jpeg->source.next_input_byte = jpeg->header.data;
    jpeg->source.bytes_in_buffer = size;
    jpeg_read_header(&jpeg->c, TRUE);
    return true;
}

// Tells at which row decoding will begin. Chroma of half the height is interpolated from the rows
// above and below.
static rung_status pass_over(rungi_jpeg *jpeg, int y, int *first_out)
{
    struct jpeg_decompress_struct *c = &jpeg->c;
    bool each_row = false;
    int rows = rows_of_segment(c, &each_row), margin = c->max_v_samp_factor > 1 ? MARGIN : 0;
    *first_out = 0;
    if (rows == 0 || (!each_row && y - margin < rows))
        return RUNG_OK;
    int count = y > margin ? (y - margin) / rows : 0;
    count -= each_row && count % 8 == 1; // else the numbers would be those that are expected
    const unsigned char *scan = jpeg->source.next_input_byte;
    const unsigned char *segment = rungi_jpeg_after_markers(scan, jpeg->data + jpeg->size, count);
    size_t size = (size_t)(scan - jpeg->data);
    if (!segment)
        return RUNG_OK; // as far as they go, decoding tells
    RUNG_CHECK(rungi_block_reserve(&jpeg->header, size + 2), RUNG_NO_MEMORY,
               "%s: no memory to decode it", jpeg->name);
    size = rungi_jpeg_cut_header(jpeg->data, size, (int)c->image_height - count * rows,
                                 jpeg->header.data);
    if (size == 0)
        return RUNG_OK;
    jpeg->segment = segment;
    jpeg->shift = (each_row ? count + 7 : count) % 8;
    if (each_row) {
        jpeg->header.data[size++] = 0xff;
        jpeg->header.data[size++] = (uint8_t)(JPEG_RST0 + jpeg->shift);
    }
    if (!read_cut_header(jpeg, size))
        return refuse(jpeg, ", within its header");
    jpeg->by_row = each_row;
    if (each_row)
        c->restart_interval = 0;
    *first_out = count * rows;
    return RUNG_OK;
}

// Rows of pixels, as many as come at once: at most one row of blocks is begun.
static void read_lines(rungi_jpeg *jpeg, JSAMPROW *rows, JDIMENSION count)
{
    if (jpeg->by_row)
        jpeg->c.restart_interval = 1;
    jpeg_read_scanlines(&jpeg->c, rows, count);
}

static void skip_lines(rungi_jpeg *jpeg, JDIMENSION count)
{
    if (!jpeg->by_row) {
        jpeg_skip_scanlines(&jpeg->c, count);
        return;
    }
    JSAMPROW row = jpeg->rows.data; // written over later
    while (jpeg->c.output_scanline < count)
        read_lines(jpeg, &row, 1);
}

typedef struct window {
    JDIMENSION x, width; // decoded columns
    size_t stride;
} window;

// Runs libjpeg's calls. False when it jumped out.
static bool read_rows(rungi_jpeg *jpeg, const rungi_rect *part, window *w)
{
    struct jpeg_decompress_struct *c = &jpeg->c;
    if (setjmp(jpeg->jump))
        return false;
    jpeg_start_decompress(c);
    if (w->x > 0 || w->width < c->output_width)
        jpeg_crop_scanline(c, &w->x, &w->width);
    if (part->y > 0)
        skip_lines(jpeg, (JDIMENSION)part->y);
    JDIMENSION end = (JDIMENSION)(part->y + part->height);
    while (c->output_scanline < end) {
        JSAMPROW rows[ROWS_AT_ONCE];
        JDIMENSION first = c->output_scanline - (JDIMENSION)part->y,
                   count = end - c->output_scanline;
        count = count < ROWS_AT_ONCE ? count : ROWS_AT_ONCE;
        for (JDIMENSION i = 0; i < count; i++)
            rows[i] = jpeg->rows.data + w->stride * (first + i);
        read_lines(jpeg, rows, count);
    }
    jpeg_abort_decompress(c);
    return true;
}

// The columns to ask for; libjpeg widens them to whole blocks, so room for that is kept.
static window choose_window(const struct jpeg_decompress_struct *c, const rungi_rect *part)
{
    int margin = c->max_h_samp_factor > 1 ? MARGIN : 0;
    int from = part->x > margin ? part->x - margin : 0;
    int to = part->x + part->width + margin;
    to = to < (int)c->image_width ? to : (int)c->image_width;
    window w = {(JDIMENSION)from, (JDIMENSION)(to - from), 0};
    size_t widest = (size_t)w.width + 2 * DCTSIZE * (size_t)c->max_h_samp_factor;
    w.stride = (widest * (size_t)(c->out_color_space == JCS_CMYK ? 4 : 3) + 63) / 64 * 64;
    return w;
}

rung_status rungi_jpeg_read(rungi_jpeg *jpeg, const rungi_rect *part, int channels,
                            rungi_pixels *pixels_out)
{
    struct jpeg_decompress_struct *c = &jpeg->c;
    int first;
    RUNG_TRY(pass_over(jpeg, part->y, &first));
    bool grey = c->num_components == 1;
    c->out_color_space = c->num_components == 4  ? JCS_CMYK
                         : grey && channels == 1 ? JCS_GRAYSCALE
                                                 : JCS_RGB;
    c->dct_method = JDCT_ISLOW;
    c->do_fancy_upsampling = TRUE;
    window w = choose_window(c, part);
    RUNG_CHECK(
        rungi_block_reserve(&jpeg->rows, w.stride * (size_t)part->height + RUNGI_PIXELS_SLACK),
        RUNG_NO_MEMORY, "%s: no memory for its pixels", jpeg->name);
    const rungi_rect below = {part->x, part->y - first, part->width, part->height};
    if (!read_rows(jpeg, &below, &w)) {
        char where[64];
        snprintf(where, sizeof where, ", in row %u of %u", c->output_scanline + (unsigned)first,
                 c->image_height + (unsigned)first);
        return refuse(jpeg, where);
    }
    for (int y = 0; y < part->height; y++) {
        uint8_t *row = jpeg->rows.data + w.stride * (size_t)y;
        if (c->out_color_space == JCS_CMYK)
            rgb_of_cmyk(row, w.width);
        if (c->out_color_space != JCS_GRAYSCALE && channels == 1)
            rungi_grey_of_rgb(row, row, w.width);
    }
    *pixels_out = (rungi_pixels){jpeg->rows.data + ((size_t)part->x - w.x) * (size_t)channels,
                                 w.stride, part->width, part->height, channels};
    return RUNG_OK;
}
