# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's side trains in the benchmarks of steps."""
# model: options of build(), image, classes, momentum (SGD, learning rate 0.01)
MODELS = {
    "mlp": ({}, (784,), 10, 0.0),
    "dlf_cnn": ({}, (3, 32, 32), 10, 0.9),
    "resnet18": ({}, (3, 224, 224), 1000, 0.9),
}
