package doctor

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/text"
)

// look is one run of a check: the facts that the check declares, the commands it can propose, what it has
// found, and what it could not read.
type look struct {
	*Facts
	commands
	check *Check

	findings []Finding
	unknown  []string
	skipped  string
}

// has reports whether a source was read completely. It panics if the check does not declare the source.
func (l *look) has(of sourced) bool {
	s := of.source()
	if !slices.Contains(l.check.Reads(), s) {
		panic(fmt.Sprintf("check %s reads %s and does not declare it", l.check.ID, s.Name))
	}
	return l.Missing[s] == ""
}

// answers returns Prometheus' answer to a query.
func (l *look) answers(s *Source) prom.Vector {
	l.has(s)
	return l.Answers[s]
}

// programs returns our programs of a name, for example "adapter".
func (l *look) programs(name string) []Program {
	l.has(Deployments)
	l.has(DaemonSets)
	return l.Programs(name)
}

// cannot records why something is unknown. Missing rights become one sentence.
func (l *look) cannot(format string, args ...any) {
	why, last := clean(fmt.Sprintf(format, args...), maxText), len(l.unknown)-1
	right, lacks := strings.CutPrefix(why, denied)
	switch {
	case slices.Contains(l.unknown, why):
	case lacks && last >= 0 && strings.HasPrefix(l.unknown[last], denied):
		l.unknown[last] += ", " + right
	default:
		l.unknown = append(l.unknown, why)
	}
}

// skip records why the check does not apply. Sources that could not be read do not matter then.
func (l *look) skip(why string) { l.skipped = why }

// fault and warn add a finding about an object: what was seen, and the fix as a sentence and as commands. The
// caller may set the returned finding's effect before the next one is added.
func (l *look) fault(object, seen, fix string, commands ...string) *Finding {
	l.findings = append(l.findings, Finding{Severity: Fault, Object: object, Seen: seen, Fix: fix, Commands: commands})
	return &l.findings[len(l.findings)-1]
}

func (l *look) warn(object, seen, fix string, commands ...string) *Finding {
	f := l.fault(object, seen, fix, commands...)
	f.Severity = Warning
	return f
}

// needs records a source that could not be read.
func (l *look) needs(of sourced) {
	if !l.has(of) {
		l.cannot("%s", l.Missing[of.source()])
	}
}

// orSkip returns the objects that a check is about. If there are none, the check is skipped.
func orSkip[T any](l *look, all []T, why string) []T {
	if len(all) == 0 {
		l.skip(why)
	}
	return all
}

// allPools returns the cluster's pools.
func allPools(l *look) []*pool { return orSkip(l, Pools.in(l), "there is no GPUNodePool") }

// the returns the first element that fits (a condition, a port), or nil.
func the[T any](all []T, fits func(T) bool) *T {
	at := slices.IndexFunc(all, fits)
	if at < 0 {
		return nil
	}
	return &all[at]
}

// find returns the object of that name in a list, or nil.
func find[T any, P interface {
	*T
	metav1.Object
}](all []P, namespace, name string) P {
	if found := the(all, func(o P) bool { return o.GetNamespace() == namespace && o.GetName() == name }); found != nil {
		return *found
	}
	return nil
}

// several shortens a list of names for a sentence.
func several(all []string) string { return text.Several(all, 5) }
