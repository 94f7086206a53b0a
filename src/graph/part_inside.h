// SPDX-License-Identifier: Apache-2.0
// Shared by part.c and part_copy.c only.
#ifndef RUNGI_GRAPH_PART_INSIDE_H
#define RUNGI_GRAPH_PART_INSIDE_H

#include "graph/part.h"

// What is known of the whole graph before it is cut.
typedef struct rungi_part_survey {
    const rung_graph *g;
    bool *live;     // by node: an output depends on it
    bool *wanted;   // by value: see rungi_graph_wanted
    bool *gradient; // by value: backward of the whole gives its gradient
    int *last;      // by value: the last live node that reads it; -1: none
    bool *low;      // by value: plans of 16 bits keep it in these
} rungi_part_survey;

rung_status rungi_part_survey_init(rungi_part_survey *s, const rung_graph *g);
void rungi_part_survey_fini(rungi_part_survey *s);

// Is the value made before `node` and read by it or later ones?
bool rungi_part_crosses(const rungi_part_survey *s, int value, int node);
// Does its gradient come back?
bool rungi_part_crossing_gradient(const rungi_part_survey *s, int value);
// RUNG_UNSUPPORTED when the shape of a value that crosses cannot be written.
rung_status rungi_part_check_cut(const rungi_part_survey *s, int node);

#endif
