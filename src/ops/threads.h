// SPDX-License-Identifier: Apache-2.0
// The calling thread's OpenMP team. A oneDNN primitive keeps the thread count that it was created
// under, so a plan is compiled and run under the same one; each POSIX thread has a team of its own.
#ifndef RUNGI_OPS_THREADS_H
#define RUNGI_OPS_THREADS_H

// Makes parallel regions that this thread opens use `threads` threads. Cheap when nothing changes.
void rungi_threads_use(int threads);

#endif
