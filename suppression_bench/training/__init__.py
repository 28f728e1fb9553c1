"""Training: data on the device, batched augmentation, the loop."""
