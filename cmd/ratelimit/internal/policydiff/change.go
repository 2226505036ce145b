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
	Effect string `json:"effect"`
	Policy string `json:"policy"`
	Plan   string `json:"plan,omitempty"`       // whose limits changed, if not the policy's own
	Key    string `json:"key,omitempty"`        // of an override, as it may be shown
	Bytes  []byte `json:"key_base64,omitempty"` // if Key is quoted
	Limit  string `json:"limit,omitempty"`
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
	Text   string `json:"text"`
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
