package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// resourceFields is others=(rdma/hca=2 …).
func resourceFields(x *fields, v *[]plan.Resource) {
	list(x, "others", v, func(o plan.Resource) string { return quote(o.Name) + "=" + strconv.FormatInt(o.Amount, 10) }, func(it item) (plan.Resource, error) {
		if len(it) != 1 || !it[0].isSet {
			return plan.Resource{}, fmt.Errorf("want name=amount")
		}
		n, err := strconv.ParseInt(it[0].value, 10, 64)
		return plan.Resource{Name: it[0].name, Amount: n}, err
	})
}

// portFields is host-ports=(TCP/8080 UDP/53/10.0.0.1 …).
func portFields(x *fields, v *[]plan.HostPort) {
	list(x, "host-ports", v, func(h plan.HostPort) string { return quote(h.String()) }, func(it item) (plan.HostPort, error) {
		parts := strings.SplitN(it[0].name, "/", 3)
		if len(it) != 1 || len(parts) < 2 {
			return plan.HostPort{}, fmt.Errorf("a host port is PROTOCOL/PORT or PROTOCOL/PORT/IP")
		}
		port, err := strconv.ParseUint(parts[1], 10, 16)
		h := plan.HostPort{Protocol: parts[0], Port: int(port)}
		if len(parts) == 3 {
			h.IP = parts[2]
		}
		return h, err
	})
}

// ruleFields is groups=(GROUP …) spread=(KEY:group=GROUP:skew=1 …)
// apart=(KEY:group=GROUP …) near=(KEY:group=GROUP …).
func ruleFields(x *fields, p *plan.Pod) {
	x.names("groups", &p.Groups)
	list(x, "spread", &p.Spread, func(s plan.Spread) string { return ruleText(s.Rule) + ":skew=" + strconv.Itoa(s.MaxSkew) }, func(it item) (plan.Spread, error) {
		s := plan.Spread{MaxSkew: 1}
		var err error
		s.Rule, err = readRule(it, func(skew string) (err error) { s.MaxSkew, err = strconv.Atoi(skew); return err })
		return s, err
	})
	alone := func(it item) (plan.Rule, error) { return readRule(it, nil) }
	list(x, "apart", &p.Apart, ruleText, alone)
	list(x, "near", &p.Near, ruleText, alone)
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

func ruleText(r plan.Rule) string { return quote(r.Key) + ":group=" + quote(r.Group) }
