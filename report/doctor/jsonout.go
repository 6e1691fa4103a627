package doctor

import (
	"encoding/json"
	"fmt"
	"io"
)

// WriteJSON writes a report for programs. Its schema is [Schema].
func WriteJSON(w io.Writer, r Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // commands have quotes and brackets, and are pasted as they are
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
