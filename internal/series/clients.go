package series

// What the metrics of clients of other services say of themselves.
const (
	ClientRequestsHelp = "What happened to requests of clients: sent, sent-again, refused, paused, turned-away."
	ClientWaitHelp     = "How long requests of clients waited before they were sent."
	ClientWaitingHelp  = "Requests of clients that wait."
)

// ClientBounds are the bounds of the histograms of waits, in seconds.
var ClientBounds = []float64{.001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
