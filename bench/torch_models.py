# SPDX-License-Identifier: Apache-2.0
"""rung's built-in networks in PyTorch, parameter names included: for benchmarks and fixtures."""
import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self, classes=10, inputs=784, hidden=512):
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class LeNet5(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class DlfCnn(nn.Module):
    """The CNN of ilkarman/DeepLearningFrameworks (PyTorch_CNN.ipynb): ReLU comes after the pool."""

    def __init__(self, classes=10, dropout=True):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 50, 3, padding=1)
        self.conv2 = nn.Conv2d(50, 50, 3, padding=1)
        self.conv3 = nn.Conv2d(50, 100, 3, padding=1)
        self.conv4 = nn.Conv2d(100, 100, 3, padding=1)
        self.fc1 = nn.Linear(6400, 512)
        self.fc2 = nn.Linear(512, classes)
        self.dropout = dropout

    def drop(self, x, p):
        return F.dropout(x, p, self.training) if self.dropout else x

    def forward(self, x):
        x = self.drop(F.relu(F.max_pool2d(self.conv2(F.relu(self.conv1(x))), 2)), 0.25)
        x = self.drop(F.relu(F.max_pool2d(self.conv4(F.relu(self.conv3(x))), 2)), 0.25)
        return self.fc2(self.drop(F.relu(self.fc1(x.flatten(1))), 0.5))


def resnet18(classes=1000, cifar=False):
    import torchvision  # takes a second: not for those who do not need it

    model = torchvision.models.resnet18(num_classes=classes)
    if cifar:
        model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        model.maxpool = nn.Identity()
    return model


def build(name, **options):
    return {"mlp": MLP, "lenet5": LeNet5, "dlf_cnn": DlfCnn, "resnet18": resnet18}[name](**options)


__all__ = ["build", "torch"]
