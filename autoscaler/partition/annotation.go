package partition

import (
	"encoding/json"
	"fmt"
)

// parseJSON reads the text of a gpuscale annotation of at most most bytes.
func parseJSON(key, text string, most int, into any) error {
	if len(text) > most {
		return fmt.Errorf("annotation %s: %d bytes, at most %d", key, len(text), most)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("annotation %s: %w", key, err)
	}
	return nil
}

// renderJSON is the text of such an annotation, equal for equal values. It is empty for a time
// beyond year 9999, which could not be parsed.
func renderJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
