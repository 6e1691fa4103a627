package doctor

import "encoding/json"

// PropertyOrBool is a schema, or a word for any.
type PropertyOrBool struct {
	Schema *Property
	Any    bool
}

// UnmarshalJSON takes a schema or true or false.
func (p *PropertyOrBool) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &p.Any); err == nil {
		return nil
	}
	p.Schema = &Property{}
	return json.Unmarshal(text, p.Schema)
}
