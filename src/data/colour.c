// SPDX-License-Identifier: Apache-2.0
#include "data/colour.h"

#include <math.h>

#include "formats/image_file.h"

// Pillow's Image.blend: from `from` (0) to `to` (1) and beyond, rounded down.
static uint8_t blend(int from, int to, float factor)
{
    float value = (float)from + factor * (float)(to - from);
    if (factor >= 0 && factor <= 1)
        return (uint8_t)value;
    return (uint8_t)(value <= 0 ? 0 : value >= 255 ? 255 : value);
}

static uint8_t grey_of(const uint8_t *pixel, int channels)
{
    uint8_t grey = pixel[0];
    if (channels == 3)
        rungi_grey_of_rgb(pixel, &grey, 1);
    return grey;
}

void rungi_colour_brightness(uint8_t *pixels, size_t count, int channels, float factor)
{
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = blend(0, i, factor);
    for (size_t i = 0; i < count * (size_t)channels; i++)
        pixels[i] = table[pixels[i]];
}

void rungi_colour_contrast(uint8_t *pixels, size_t count, int channels, float factor)
{
    uint64_t sum = 0;
    uint8_t table[256];
    for (size_t i = 0; i < count; i++)
        sum += grey_of(pixels + i * (size_t)channels, channels);
    int mean = (int)((double)sum / (double)count + 0.5);
    for (int i = 0; i < 256; i++)
        table[i] = blend(mean, i, factor);
    for (size_t i = 0; i < count * (size_t)channels; i++)
        pixels[i] = table[pixels[i]];
}

void rungi_colour_saturation(uint8_t *pixels, size_t count, int channels, float factor)
{
    for (size_t i = 0; i < count && channels == 3; i++) {
        uint8_t *p = pixels + 3 * i, grey = grey_of(p, 3);
        for (int c = 0; c < 3; c++)
            p[c] = blend(grey, p[c], factor);
    }
}

void rungi_colour_grey(uint8_t *pixels, size_t count, int channels)
{
    for (size_t i = 0; i < count && channels == 3; i++) {
        uint8_t *p = pixels + 3 * i, grey = grey_of(p, 3);
        p[0] = p[1] = p[2] = grey;
    }
}

// ---- hue, by way of 8-bit hue, saturation and value (Pillow's Convert.c)

static int clip(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static void hsv_of_rgb(const uint8_t *rgb, uint8_t *hue, uint8_t *saturation)
{
    int r = rgb[0], g = rgb[1], b = rgb[2];
    int most = r > g ? r : g, least = r < g ? r : g;
    most = b > most ? b : most;
    least = b < least ? b : least;
    *hue = *saturation = 0;
    if (most == least)
        return;
    float range = (float)(most - least), s = range / (float)most, h;
    float rc = (float)(most - r) / range, gc = (float)(most - g) / range;
    float bc = (float)(most - b) / range;
    if (r == most)
        h = bc - gc;
    else if (g == most)
        h = (float)(2.0 + (double)rc - (double)bc);
    else
        h = (float)(4.0 + (double)gc - (double)rc);
    h = (float)fmod((double)h / 6.0 + 1.0, 1.0);
    *hue = (uint8_t)clip((int)((double)h * 255.0));
    *saturation = (uint8_t)clip((int)((double)s * 255.0));
}

static void rgb_of_hsv(uint8_t hue, uint8_t saturation, uint8_t value, uint8_t *rgb)
{
    if (saturation == 0) {
        rgb[0] = rgb[1] = rgb[2] = value;
        return;
    }
    double sixth = (double)(float)hue * 6.0 / 255.0;
    int i = (int)floor(sixth);
    float f = (float)(sixth - (double)(float)i), s = (float)((double)(float)saturation / 255.0);
    uint8_t v = value;
    uint8_t p = (uint8_t)clip((int)round((double)v * (1.0 - (double)s)));
    uint8_t q = (uint8_t)clip((int)round((double)v * (1.0 - (double)(s * f))));
    uint8_t t = (uint8_t)clip((int)round((double)v * (1.0 - (double)s * (1.0 - (double)f))));
    const uint8_t faces[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    for (int c = 0; c < 3; c++)
        rgb[c] = faces[i % 6][c];
}

void rungi_colour_hue(uint8_t *pixels, size_t count, int channels, double turn)
{
    uint8_t shift = (uint8_t)(int)(turn * 255);
    for (size_t i = 0; i < count && channels == 3; i++) {
        uint8_t *p = pixels + 3 * i, hue, saturation;
        uint8_t value = p[0] > p[1] ? p[0] : p[1];
        value = p[2] > value ? p[2] : value;
        hsv_of_rgb(p, &hue, &saturation);
        rgb_of_hsv((uint8_t)(hue + shift), saturation, value, p);
    }
}
