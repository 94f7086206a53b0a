// SPDX-License-Identifier: Apache-2.0
// A contact sheet: pictures in a grid with lines of text below them, drawn into an RGB image.
#ifndef RUNGI_DATA_SHEET_H
#define RUNGI_DATA_SHEET_H

#include "formats/image_file.h"

enum { RUNGI_GLYPH_WIDTH = 6, RUNGI_GLYPH_HEIGHT = 9 }; // with the gap between characters and lines

// Draws ASCII text with its upper left corner at (x, y); other bytes become '?'. What does not fit
// into `room` pixels ends in "..". Characters of 5 x 7.
void rungi_sheet_text(rung_image *sheet, int x, int y, int room, const char *text,
                      const uint8_t colour[3]);

// Fills a rectangle, which lies within the sheet.
void rungi_sheet_fill(rung_image *sheet, const rungi_rect *where, const uint8_t colour[3]);

// Fits a picture of 1 or 3 channels into `where`, centred, its aspect kept: means of what a pixel
// covers where it shrinks, whole multiples where it grows.
void rungi_sheet_picture(rung_image *sheet, const rungi_rect *where, const rungi_pixels *picture);

#endif
