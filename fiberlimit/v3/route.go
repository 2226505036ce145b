package fiberlimit

// Route returns the path of Use, and that the route is not known, if the
// middleware was installed by Use.
func (x request) Route() (pattern string, known bool) { return x.c.Route().Path, x.c.Matched() }
