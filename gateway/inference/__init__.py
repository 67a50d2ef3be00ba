"""Applications as models of the Open Inference Protocol, by whichever transport."""
