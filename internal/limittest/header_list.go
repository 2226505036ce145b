package limittest

// HeaderList is a core.HeaderWriter that joins added values.
type HeaderList map[string]string

func (h HeaderList) Get(name string) string { return h[name] }
func (h HeaderList) Set(name, value string) { h[name] = value }
func (h HeaderList) Add(name, value string) { h[name] += value }
