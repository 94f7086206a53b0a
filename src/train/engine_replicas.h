// SPDX-License-Identifier: Apache-2.0
// Several devices in one process (train.strategy data_parallel), as users of torch.nn.DataParallel
// know it. In each step
//   1. the batch is scattered: each device gets its part of it, sizes differ by at most one, or are
//      cut by weights;
//   2. parameters and buffers are broadcast from the first device to the replicas of the others;
//   3. all devices run forward at once;
//   4. the outputs are gathered on the output device, the loss is computed there, and the gradients
//      of the outputs are scattered back. With a parallel criterion there is no gather: each device
//      computes the loss of its part, whose divisors are those of the whole batch, and the parts
//      are added;
//   5. all devices run backward at once;
//   6. the replicas' gradients are added into those of the first device, which alone has the master
//      weights and the optimizer's state.
// Accumulated rounds repeat 3 to 5, each device with its own stretch of the samples.
// Sums are the tree of the shards (shards.h), so that under exact the bits are those of one device.
//
// CPU devices are virtual and see each other's memory: inputs and gradients are read where they
// lie, unless `copies` says that whatever goes from one device to another is copied through a
// stream of the device that sends or gets it, with the delays of that device.
#ifndef RUNGI_TRAIN_ENGINE_REPLICAS_H
#define RUNGI_TRAIN_ENGINE_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/device.h"

typedef struct rungi_replicas_options {
    rung_device *const *devices; // borrowed; the first is that of the state
    int count;                   // 0 or 1: there is one device
    const double *weights;       // borrowed; shares of the devices, all above 0; NULL: equal ones
    int output_device;           // index: where outputs are gathered
    bool parallel_criterion;
    bool first_statistics; // running statistics are those of the first device's part; else of all
    bool copies;
} rungi_replicas_options;

// What a device did in training steps so far, and when it was told what of the optimizer's.
typedef struct rungi_replica_use {
    const rung_device *device;
    int64_t samples;       // trained on
    int64_t busy, copying; // nanoseconds: computing; sending and getting
} rungi_replica_use;

#endif
