package fakeapi

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// Answers reads what Prometheus answers, by source: a line "SOURCE: LABEL=VALUE … = NUMBER" is
// a sample. A source without one has answered with nothing.
func Answers(text string) (map[string]prom.Vector, error) {
	all := map[string]prom.Vector{}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		source, rest, _ := strings.Cut(line, ":")
		if all[source] == nil {
			all[source] = prom.Vector{}
		}
		words, value, ok := strings.Cut(rest, "= ")
		if !ok && strings.TrimSpace(rest) == "" {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: want SOURCE: LABEL=VALUE … = NUMBER", line)
		}
		labels := map[string]string{}
		for _, word := range strings.Fields(words) {
			name, value, _ := strings.Cut(word, "=")
			labels[name] = value
		}
		all[source] = append(all[source], prom.Sample{Labels: prom.FromMap(labels), Value: v})
	}
	return all, nil
}
