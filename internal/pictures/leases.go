package pictures

func drawLeases() *canvas {
	c := newCanvas(500, "One request's way", "x")
	return c
}
