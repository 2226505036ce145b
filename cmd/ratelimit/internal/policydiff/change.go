package policydiff

// What a change does for clients.
const (
	Cut    = "cut"
	Raise  = "raise"
	Rename = "rename"
	New    = "new"
	Remove = "remove"
	Other  = "other"
)

// Change is one difference.
type Change struct {
	Effect string `json:"effect"`               // cut, raise, rename, new, remove or other
	Policy string `json:"policy"`               // its name
	Plan   string `json:"plan,omitempty"`       // whose limits changed, if not the policy's own
	Key    string `json:"key,omitempty"`        // of an override, as it may be shown
	Bytes  []byte `json:"key_base64,omitempty"` // the key itself, if key is quoted
	Limit  string `json:"limit,omitempty"`      // the limit's name
	Old    string `json:"old,omitempty"`        // what it was
	New    string `json:"new,omitempty"`        // what it is
	Text   string `json:"text"`                 // what clients find, in words
}

// String is the change on one line.
func (c Change) String() string {
	where := c.Policy
	if c.Plan != "" {
		where += ", plan " + c.Plan
	}
	if c.Key != "" {
		where += " for " + c.Key
	}
	if c.Limit != "" {
		where += ", limit " + c.Limit
	}
	return where + ": " + c.Text
}

// comparison is a comparison under way.
type comparison struct {
	shown   func(key string) string
	changes []Change
}

func (c *comparison) add(change Change) { c.changes = append(c.changes, change) }
