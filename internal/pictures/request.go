package pictures

func drawRequest() *canvas {
	c := newCanvas(500, "One request's way", "x")
	return c
}
