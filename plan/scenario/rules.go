package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// readOthers reads others=(rdma/hca=2 …).
func readOthers(r *reader, v *[]plan.Resource) {
	var out []plan.Resource
	if r.items("others", func(it item) error {
		if len(it) != 1 || !it[0].isSet {
			return fmt.Errorf("want name=amount")
		}
		n, err := strconv.ParseInt(it[0].value, 10, 64)
		out = append(out, plan.Resource{Name: it[0].name, Amount: n})
		return err
	}) {
		*v = out
	}
}

func othersText(all []plan.Resource) string {
	if len(all) == 0 {
		return ""
	}
	words := make([]string, len(all))
	for i, o := range all {
		words[i] = quote(o.Name) + "=" + strconv.FormatInt(o.Amount, 10)
	}
	return " others=(" + strings.Join(words, " ") + ")"
}

// readPorts reads host-ports=(TCP/8080 UDP/53/10.0.0.1 …).
func readPorts(r *reader, v *[]plan.HostPort) {
	var out []plan.HostPort
	if r.items("host-ports", func(it item) error {
		parts := strings.SplitN(it[0].name, "/", 3)
		if len(it) != 1 || len(parts) < 2 {
			return fmt.Errorf("a host port is PROTOCOL/PORT or PROTOCOL/PORT/IP")
		}
		port, err := strconv.ParseUint(parts[1], 10, 16)
		h := plan.HostPort{Protocol: parts[0], Port: int(port)}
		if len(parts) == 3 {
			h.IP = parts[2]
		}
		out = append(out, h)
		return err
	}) {
		*v = out
	}
}

func portsText(ports []plan.HostPort) string {
	words := make([]string, len(ports))
	for i, h := range ports {
		words[i] = quote(h.String())
	}
	return wordsText("host-ports", words)
}

// readRules reads groups=(GROUP …) spread=(KEY:group=GROUP:skew=1 …)
// apart=(KEY:group=GROUP …) near=(KEY:group=GROUP …).
func readRules(r *reader, p *plan.Pod) {
	var groups []string
	if r.items("groups", func(it item) error { groups = append(groups, it[0].name); return nil }) {
		p.Groups = groups
	}
	var spread []plan.Spread
	if r.items("spread", func(it item) error {
		s := plan.Spread{MaxSkew: 1}
		var err error
		if s.Rule, err = readRule(it, func(skew string) (err error) { s.MaxSkew, err = strconv.Atoi(skew); return err }); err != nil {
			return err
		}
		spread = append(spread, s)
		return nil
	}) {
		p.Spread = spread
	}
	for _, f := range []struct {
		key   string
		rules *[]plan.Rule
	}{{"apart", &p.Apart}, {"near", &p.Near}} {
		var rules []plan.Rule
		if r.items(f.key, func(it item) error {
			rule, err := readRule(it, nil)
			rules = append(rules, rule)
			return err
		}) {
			*f.rules = rules
		}
	}
}

func readRule(it item, skew func(string) error) (plan.Rule, error) {
	rule := plan.Rule{Key: it[0].name}
	for _, s := range it[1:] {
		switch {
		case s.name == "group":
			rule.Group = s.value
		case s.name == "skew" && skew != nil:
			if err := skew(s.value); err != nil {
				return rule, fmt.Errorf("skew: want a number: %q", s.value)
			}
		default:
			return rule, fmt.Errorf("%q is no part of a rule: label:group=NAME", s.name)
		}
	}
	if rule.Group == "" {
		return rule, fmt.Errorf("a rule is label:group=NAME")
	}
	return rule, nil
}

func rulesText(p plan.Pod) string {
	var b strings.Builder
	if len(p.Groups) > 0 {
		b.WriteString(" groups=" + listText(p.Groups))
	}
	write := func(key string, words []string) {
		if len(words) > 0 {
			b.WriteString(" " + key + "=(" + strings.Join(words, " ") + ")")
		}
	}
	var spread []string
	for _, s := range p.Spread {
		spread = append(spread, ruleText(s.Rule)+":skew="+strconv.Itoa(s.MaxSkew))
	}
	write("spread", spread)
	for _, f := range []struct {
		key   string
		rules []plan.Rule
	}{{"apart", p.Apart}, {"near", p.Near}} {
		var words []string
		for _, r := range f.rules {
			words = append(words, ruleText(r))
		}
		write(f.key, words)
	}
	return b.String()
}

func ruleText(r plan.Rule) string { return quote(r.Key) + ":group=" + quote(r.Group) }
