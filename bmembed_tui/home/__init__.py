"""The first screen: projects, new projects, the sample."""
