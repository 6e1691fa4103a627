package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// look is one check running: it returns facts, recording those that could not be read,
// and collects findings.
type look struct {
	f        *Facts
	check    *Check
	findings []Finding
	unknown  []string
	skipped  string
}

// use records the use of a source, and reports whether it was read in full. It panics on
// a source that the check does not declare.
func (l *look) use(s Source) bool {
	l.declared(s)
	why, missing := l.f.Missing[s]
	if missing {
		l.cannot("%s", why)
	}
	return !missing
}

func (l *look) declared(s Source) {
	if !slices.Contains(l.check.Looks, s) {
		panic(fmt.Sprintf("check %s reads %s and does not declare it", l.check.ID, s))
	}
}

// has reports whether a source was read, without recording its use.
func (l *look) has(s Source) bool {
	l.declared(s)
	_, missing := l.f.Missing[s]
	return !missing
}

// cannot records why something is unknown.
func (l *look) cannot(format string, args ...any) {
	if why := Clean(fmt.Sprintf(format, args...), maxText); !slices.Contains(l.unknown, why) {
		l.unknown = append(l.unknown, why)
	}
}

func (l *look) reasons() string { return strings.Join(l.unknown, "; ") }

// skip records why the check does not apply.
func (l *look) skip(why string) { l.skipped = why }

func (l *look) fault(f Finding) { l.add(Fault, f) }
func (l *look) warn(f Finding)  { l.add(Warning, f) }

func (l *look) add(s Severity, f Finding) {
	f.Severity = s
	if f.Means == "" {
		f.Means = strings.ReplaceAll(l.check.Means, "`", "")
	}
	f.Object, f.Seen = Clean(f.Object, 2*maxName), Clean(f.Seen, maxText)
	f.Means, f.Fix = Clean(f.Means, maxText), Clean(f.Fix, maxText)
	f.Commands = slices.DeleteFunc(append([]string{}, f.Commands...), func(c string) bool { return c == "" })
	l.findings = append(l.findings, f)
}

// kubectl writes a command for the cluster.
func (l *look) kubectl(words ...string) string {
	return command(append(append([]string{"kubectl"}, l.f.Kubectl...), words...)...)
}

// in writes a command about a namespace; none for what has no namespace.
func (l *look) in(namespace string, words ...string) string {
	if namespace == "" {
		return l.kubectl(words...)
	}
	return l.kubectl(append([]string{"-n", namespace}, words...)...)
}

// answer returns Prometheus' answer to a query, and whether there is one.
func (l *look) answer(s Source) (prom.Vector, bool) {
	known := l.use(s)
	return l.f.Answers[s], known
}

func (l *look) nodes() []*corev1.Node { l.use(Nodes); return l.f.Nodes }
func (l *look) pods() []*corev1.Pod   { l.use(Pods); return l.f.Pods }

// programs of ours by their name, "adapter".
func (l *look) programs(name string) []Program {
	l.use(Deployments)
	l.use(DaemonSets)
	return l.f.Programs(name)
}

// find returns the object of that name in a list, nil where there is none.
func find[T any, P interface {
	*T
	metav1.Object
}](all []P, namespace, name string) P {
	at := slices.IndexFunc(all, func(o P) bool { return o.GetNamespace() == namespace && o.GetName() == name })
	if at < 0 {
		return nil
	}
	return all[at]
}

// named shortens a list of names for a sentence.
func named(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
