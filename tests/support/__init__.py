"""What tests share: desks, nodes, scripted peers, catalogs."""
