package main

import "strings"

// list is a flag whose values stand apart by commas and that may be given
// several times: both add up, as in dcgm-exporter. Quotes have no meaning.
type list []string

// Set adds the values of one text.
func (l *list) Set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	return nil
}

// String joins the values by commas.
func (l *list) String() string { return strings.Join(*l, ",") }

// Type is what the help calls a value.
func (l *list) Type() string { return "list" }
