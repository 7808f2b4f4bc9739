"""The program: `corral admission | provisioner | simulated-cloud | plan | why | pools`."""
