package pictures

func drawSettle() *canvas {
	c := newCanvas(500, "One request's way", "x")
	return c
}
