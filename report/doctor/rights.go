package doctor

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// right is a permission that a program uses in every cluster.
type right struct{ group, resource, verb string }

func (r right) String() string {
	if r.group == "" {
		return r.verb + " " + r.resource
	}
	return r.verb + " " + r.resource + "." + r.group
}

// rightsOf builds rights of a group.
func rightsOf(group string, verbs []string, resources ...string) []right {
	var out []right
	for _, r := range resources {
		for _, v := range verbs {
			out = append(out, right{group, r, v})
		}
	}
	return out
}

// Permissions that programs use under any configuration. Those of optional features are
// left out: their absence may be intended.
var (
	watching      = []string{"list", "watch"}
	adapterRight  = slices.Concat(rightsOf("", watching, "pods", "services"), rightsOf("apps", watching, "replicasets", "deployments", "statefulsets"), rightsOf("batch", watching, "jobs"))
	observeRights = slices.Concat(
		rightsOf("", watching, "pods", "nodes", "namespaces", "limitranges", "resourcequotas", "persistentvolumes", "persistentvolumeclaims"), rightsOf("storage.k8s.io", watching, "storageclasses"), rightsOf("policy", watching, "poddisruptionbudgets"),
		rightsOf("autoscaling", watching, "horizontalpodautoscalers"), rightsOf("apps", watching, "deployments", "statefulsets"),
		rightsOf("scheduling.k8s.io", watching, "priorityclasses"), rightsOf("gpuscale.io", watching, "gpunodepools", "gpuquotas"))
	actRights = slices.Concat(
		rightsOf("", []string{"patch"}, "nodes"), rightsOf("", []string{"create"}, "pods/eviction"), rightsOf("gpuscale.io", []string{"patch"}, "gpunodepools/status", "gpuquotas/status"))
)

func programRights(l *look) {
	adapters, autoscalers := l.programs("adapter"), l.programs("autoscaler")
	if !l.use(ClusterRoles) || !l.use(ClusterRoleBindings) {
		return
	}
	if len(adapters)+len(autoscalers) == 0 {
		l.skip("no adapter and no autoscaler of gpuscale was found")
		return
	}
	for _, p := range adapters {
		l.lacksRights(p, "adapter.yaml", adapterRight, "it cannot read these objects: metrics of their pods have no value, and HPAs on them do not scale")
	}
	for _, p := range autoscalers {
		wanted := observeRights
		if !slices.ContainsFunc(p.Args, isDryRun) {
			wanted = slices.Concat(observeRights, actRights)
		}
		l.lacksRights(p, "autoscaler.yaml", wanted, "it does not plan without what it cannot read, and its writes are refused in each reconcile")
	}
}

// lacksRights reports the permissions that a program's account lacks in the whole cluster.
func (l *look) lacksRights(p Program, manifest string, wanted []right, means string) {
	rules, roles := l.rulesOf(p)
	var missing []string
	for _, r := range wanted {
		if !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return gives(rule, r) }) {
			missing = append(missing, r.String())
		}
	}
	if len(missing) == 0 {
		return
	}
	f := Finding{
		Object: "ServiceAccount " + p.Namespace + "/" + p.ServiceAccount,
		Seen:   fmt.Sprintf("%s runs as it, and no ClusterRole gives it: %s", p.Object(), named(missing)),
		Means:  means, Fix: "Reinstall its rights.",
		Commands: []string{l.install(p, manifest)},
	}
	if slices.Contains(roles, p.Name) {
		f.Object = "ClusterRole " + p.Name
		f.Seen = fmt.Sprintf("neither it nor another role gives %s: %s", p.Object(), named(missing))
	}
	l.fault(f)
}

// rulesOf are the rules that hold for a program's account everywhere, and the names of
// the roles that they are in.
func (l *look) rulesOf(p Program) (rules []rbacv1.PolicyRule, roles []string) {
	for _, b := range l.f.ClusterRoleBindings {
		if b.RoleRef.Kind != "ClusterRole" || !subject(b.Subjects, p) {
			continue
		}
		for _, r := range l.f.ClusterRoles {
			if r.Name == b.RoleRef.Name {
				rules, roles = append(rules, r.Rules...), append(roles, r.Name)
			}
		}
	}
	return rules, roles
}

// gives reports whether a rule grants a permission, for objects of any name.
func gives(rule rbacv1.PolicyRule, r right) bool {
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return len(rule.ResourceNames) == 0 && has(rule.APIGroups, r.group) && has(rule.Verbs, r.verb) && has(rule.Resources, r.resource)
}

// boundCluster reports whether an adapter may authenticate callers.
func (l *look) boundCluster(p Program) bool {
	for _, b := range l.f.ClusterRoleBindings {
		if (b.RoleRef.Name == "system:auth-delegator" || b.RoleRef.Name == "cluster-admin") && subject(b.Subjects, p) {
			return true
		}
	}
	return false
}

// boundReader reports whether an adapter may read the front proxy's CA.
func (l *look) boundReader(p Program) bool {
	for _, b := range l.f.RoleBindings {
		if b.Namespace == "kube-system" && b.RoleRef.Name == "extension-apiserver-authentication-reader" && subject(b.Subjects, p) {
			return true
		}
	}
	return false
}

// subject reports whether a program's account is among subjects, by itself or as one
// of a group that all accounts are in.
func subject(all []rbacv1.Subject, p Program) bool {
	for _, s := range all {
		switch {
		case s.Kind == rbacv1.ServiceAccountKind && s.Name == p.ServiceAccount && s.Namespace == p.Namespace:
			return true
		case s.Kind == rbacv1.UserKind && s.Name == "system:serviceaccount:"+p.Namespace+":"+p.ServiceAccount:
			return true
		case s.Kind == rbacv1.GroupKind && (s.Name == "system:serviceaccounts" || s.Name == "system:serviceaccounts:"+p.Namespace || s.Name == "system:authenticated"):
			return true
		}
	}
	return false
}
