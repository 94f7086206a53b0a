// SPDX-License-Identifier: Apache-2.0
// Changes of colour on 8-bit pixels in place, equal in every value to Pillow's (ImageEnhance and
// its HSV), as torchvision uses them. `channels` is 1 or 3; of grey, saturation and hue change
// nothing.
#ifndef RUNGI_DATA_COLOUR_H
#define RUNGI_DATA_COLOUR_H

#include <stddef.h>
#include <stdint.h>

// 0 is black, 1 leaves the picture.
void rungi_colour_brightness(uint8_t *pixels, size_t count, int channels, float factor);
// 0 is the grey of the picture's mean.
void rungi_colour_contrast(uint8_t *pixels, size_t count, int channels, float factor);
// 0 is grey.
void rungi_colour_saturation(uint8_t *pixels, size_t count, int channels, float factor);
// Turns the colour wheel by `turn` of it, -1/2 to 1/2.
void rungi_colour_hue(uint8_t *pixels, size_t count, int channels, double turn);
// All channels become the grey value.
void rungi_colour_grey(uint8_t *pixels, size_t count, int channels);

#endif
