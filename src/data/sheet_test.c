// SPDX-License-Identifier: Apache-2.0
// What a contact sheet is drawn with.
#include "data/data_testing.h"

#include "data/sheet.h"

enum { WIDTH = 40, HEIGHT = 24 };

static const uint8_t white[3] = {255, 255, 255}, red[3] = {200, 10, 20};

static rung_image blank(uint8_t *pixels)
{
    rung_image sheet = {WIDTH, HEIGHT, 3, pixels};
    rungi_sheet_fill(&sheet, &(rungi_rect){0, 0, WIDTH, HEIGHT}, white);
    return sheet;
}

static const uint8_t *at(const rung_image *sheet, int x, int y)
{
    return sheet->pixels + ((size_t)y * WIDTH + (size_t)x) * 3;
}

static bool is(const rung_image *sheet, int x, int y, int r, int g, int b)
{
    const uint8_t *p = at(sheet, x, y);
    return p[0] == r && p[1] == g && p[2] == b;
}

// Rows of the sheet from (x, y) on as text: # where it is not white.
static void assert_rows(const rung_image *sheet, int x, int y, const char *const *rows)
{
    for (int j = 0; rows[j]; j++)
        for (int i = 0; rows[j][i]; i++)
            assert_int_equal(!is(sheet, x + i, y + j, 255, 255, 255), rows[j][i] == '#');
}

static void characters(void **state)
{
    uint8_t pixels[WIDTH * HEIGHT * 3];
    rung_image sheet = blank(pixels);
    (void)state;
    rungi_sheet_text(&sheet, 3, 2, 30, "E", red);
    static const char *const rows[] = {"#####", "#    ", "#    ", "#### ",
                                       "#    ", "#    ", "#####", NULL};
    assert_int_equal(at(&sheet, 3, 2)[0], 200);
    assert_int_equal(at(&sheet, 3, 2)[2], 20);
    for (int j = 0; rows[j]; j++)
        for (int i = 0; i < 5; i++)
            assert_int_equal(is(&sheet, 3 + i, 2 + j, 200, 10, 20), rows[j][i] == '#');
    // What does not fit ends in two dots; other bytes are question marks; the edge is the end.
    sheet = blank(pixels);
    rungi_sheet_text(&sheet, 0, 0, 18, "IIII", red);
    static const char *const cut[] = {
        " ###             ", "  #              ", "  #              ", "  #              ",
        "  #              ", "  #     ##    ## ", " ###    ##    ## ", NULL};
    assert_rows(&sheet, 0, 0, cut);
    uint8_t other[WIDTH * HEIGHT * 3];
    rung_image twin = blank(other);
    rungi_sheet_text(&sheet, 30, 20, 100, "\xc3\xa4 beyond", red);
    rungi_sheet_text(&twin, 0, 0, 18, "IIII", red);
    rungi_sheet_text(&twin, 30, 20, 100, "?? beyond", red);
    assert_memory_equal(pixels, other, sizeof pixels);
}

static void pictures_are_fitted(void **state)
{
    uint8_t pixels[WIDTH * HEIGHT * 3];
    const uint8_t grey[4] = {10, 20, 30, 41}, colour[6] = {1, 2, 3, 4, 5, 6};
    rung_image sheet = blank(pixels);
    (void)state;
    // 2 x 2 grey into 7 x 9: three times as large, centred.
    rungi_sheet_picture(&sheet, &(rungi_rect){10, 5, 7, 9}, &(rungi_pixels){grey, 2, 2, 2, 1});
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 6; x++) {
            int v = grey[y / 3 * 2 + x / 3];
            assert_true(is(&sheet, 10 + x, 6 + y, v, v, v));
        }
    assert_true(is(&sheet, 16, 6, 255, 255, 255) && is(&sheet, 10, 5, 255, 255, 255));
    // Into one pixel: the mean, 25.25.
    rungi_sheet_picture(&sheet, &(rungi_rect){0, 0, 1, 1}, &(rungi_pixels){grey, 2, 2, 2, 1});
    assert_true(is(&sheet, 0, 0, 25, 25, 25));
    // 2 x 1 colours into 1 x 1, each channel alone; halves go up.
    rungi_sheet_picture(&sheet, &(rungi_rect){2, 0, 1, 1}, &(rungi_pixels){colour, 6, 2, 1, 3});
    assert_true(is(&sheet, 2, 0, 3, 4, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters),
        cmocka_unit_test(pictures_are_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
