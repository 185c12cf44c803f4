"""Motion: key points, the diffusion sampler, and what is done to the motion of a talking head."""
