package keyparts

import (
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// Search finds the keys that names of a customer mean, and whether these are of
// one customer. A name means a key that
//
//   - is the key, or one that it joins;
//   - is one of its values that say who sends requests, as a whole;
//   - is an address of the network in its value of ip;
//   - is its hash in the log, if hash is given.
type Search struct {
	Kinds  int // keys of apps whose kind is a name, and which no name means
	Hashed int // keys that no name means, and whose values nobody can see

	names []name
	hash  func(key string) string

	others   map[string]string // a value of each thing that keys have besides the names
	differ   map[string]bool   // of what they have several
	doubtful bool
	shared   bool
}

// name is what someone calls a customer.
type name struct {
	text    string
	encoded string          // as a part of a key
	stored  string          // as a key
	in      map[string]bool // all things that it is the value of
	always  map[string]bool // those that it is the value of in each key; nil: it is in none yet
}

// whole is what a name stands for that is a key.
const whole = "a key"

// NewSearch returns a search by names. hash returns the hash that the log has
// of a key, or is nil.
func NewSearch(hash func(key string) string, names ...string) *Search {
	s := &Search{hash: hash, others: make(map[string]string), differ: make(map[string]bool)}
	for _, text := range names {
		s.names = append(s.names, name{text, core.JoinKey(text), oncall.StoredKey(text), make(map[string]bool), nil})
	}
	return s
}

// Finds reports whether a name means a stored key. It may be asked twice of a
// key.
func (s *Search) Finds(key string) bool {
	p, found := Of(key), false
	named := make([]bool, len(p.Values))
	for i := range s.names {
		found = s.names[i].finds(key, p, s.hash, named) || found
	}
	switch {
	case found:
		s.note(p, named)
	case p.Hashed || strings.HasPrefix(key, "sha256:"):
		s.Hashed++
	case slices.ContainsFunc(s.names, func(n name) bool { return n.text == p.Kind }):
		s.Kinds++
	}
	return found
}

// finds marks the values of a key that n means.
func (n *name) finds(key string, p *Parts, hash func(string) string, named []bool) bool {
	in := make(map[string]bool)
	for i, v := range p.Values {
		if v.Client && (v.encoded == n.encoded || inNetwork(n.text, v)) {
			in[v.Of], named[i] = true, true
		}
	}
	logged := hash != nil && oncall.IsHex(n.text, oncall.LogDigits) && hash(key) == n.text
	for i, k := range p.keys {
		if k.encoded != n.encoded && (i > 0 || key != n.stored && !logged) {
			continue
		}
		if len(in) == 0 {
			in[whole] = true
		}
		for at := k.from; at < k.to; at++ {
			named[at] = true
		}
	}
	if len(in) == 0 {
		return false
	}
	maps.Copy(n.in, in)
	if n.always == nil {
		n.always = in
	}
	maps.DeleteFunc(n.always, func(of string, _ bool) bool { return !in[of] })
	return true
}

// inNetwork reports whether a text is an address of a value of ip that is a
// network, or another text of that network. The text may have ip: in front.
func inNetwork(text string, v Value) bool {
	if v.Of != "ip" {
		return false
	}
	given, ok := network(strings.TrimPrefix(text, "ip:"))
	net, _ := network(v.Text)
	return ok && net.Contains(given.Addr()) && (net == given || given.IsSingleIP())
}

// note notes what a key has besides the names.
func (s *Search) note(p *Parts, named []bool) {
	s.doubtful = s.doubtful || p.Doubtful
	shared := true
	for i, v := range p.Values {
		if shared = shared && !v.Client; named[i] || !v.Client {
			continue
		}
		if other, ok := s.others[v.Of]; ok && other != v.encoded {
			s.differ[v.Of] = true
		}
		s.others[v.Of] = v.encoded
	}
	s.shared = s.shared || shared && !p.Hashed
}

// Several returns why the keys that were found may be of more than one
// customer, or "" if they are of one: each name stands for one thing, such as a
// header field; they don't differ in anything else that says who sends
// requests; each says that at all; and each can be read in one way.
func (s *Search) Several() string {
	var why []string
	for _, n := range s.names {
		if len(n.in) > 0 && len(n.always) == 0 {
			why = append(why, "one name stands for "+things(n.in))
		}
	}
	if len(s.differ) > 0 {
		why = append(why, "they differ in "+things(s.differ))
	}
	if s.shared {
		why = append(why, "one key is everybody's, as that of a path")
	}
	if s.doubtful {
		why = append(why, "one key has two readings, because its first part may be a kind")
	}
	return strings.Join(why, "; ")
}

// things lists what values are of.
func things(of map[string]bool) string {
	list := slices.Sorted(maps.Keys(of))
	for i, one := range list {
		if one == "" {
			list[i] = "a whole key of your own"
		}
	}
	return strings.Join(list, " and ")
}
