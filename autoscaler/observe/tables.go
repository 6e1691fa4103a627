package observe

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// published keeps the MIG tables that nodes publish, since they hardly ever change
// and cost some time to build.
type published struct {
	texts  string
	tables mig.Tables
	err    error
}

// of returns the tables of these nodes. The error says of which something is wrong;
// the others hold.
func (p *published) of(nodes []corev1.Node) (mig.Tables, error) {
	from := map[string]string{} // one of the nodes that say so, by what they say
	for i := range nodes {
		if text := nodes[i].Annotations[partition.TableAnnotation]; text != "" {
			if had, ok := from[text]; !ok || nodes[i].Name < had {
				from[text] = nodes[i].Name
			}
		}
	}
	texts := make([]string, 0, len(from))
	for text := range from {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	key := strings.Join(texts, "\x00")
	if key == p.texts {
		return p.tables, p.err
	}
	var specs []mig.Spec
	var errs []error
	for _, text := range texts {
		read, err := partition.ParseTables(text)
		if err != nil {
			errs = append(errs, errors.New("node "+from[text]+": "+err.Error()))
		}
		for _, s := range read {
			if !slices.ContainsFunc(specs, func(had mig.Spec) bool { return had.String() == s.String() }) {
				specs = append(specs, s)
			}
		}
	}
	tables, err := mig.NewTables(specs...)
	p.texts, p.tables, p.err = key, tables, errors.Join(append(errs, err)...)
	return p.tables, p.err
}
