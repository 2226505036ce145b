package main

// writeDemo adds the demo, whose server is compiled to WebAssembly.
func writeDemo(*output) error { return nil }
