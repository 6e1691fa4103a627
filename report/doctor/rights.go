package doctor

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

func adapterRights(l *look) {
	adapters := l.adapters()
	if len(adapters) == 0 {
		return
	}
	cluster, roles := l.has(ClusterRoleBindings), l.has(RoleBindings)
	for _, p := range adapters {
		f := Finding{Object: "ServiceAccount " + p.Namespace + "/" + p.ServiceAccount, Fix: "Bind the role."}
		account := "--serviceaccount=" + p.Namespace + ":" + p.ServiceAccount
		if cluster && !slices.ContainsFunc(l.f.ClusterRoleBindings, func(b *clusterRoleBinding) bool {
			return (b.RoleRef.Name == "system:auth-delegator" || b.RoleRef.Name == "cluster-admin") && subject(b.Subjects, p)
		}) {
			f.Seen = "no ClusterRoleBinding gives it the ClusterRole system:auth-delegator"
			f.Means = "the adapter cannot authenticate callers at the API server, and refuses all of them"
			f.Commands = []string{l.kubectl("create", "clusterrolebinding", p.Name+"-auth-delegator", "--clusterrole=system:auth-delegator", account)}
			l.fault(f)
		}
		if roles && !slices.ContainsFunc(l.f.RoleBindings, func(b *roleBinding) bool {
			return b.Namespace == "kube-system" && b.RoleRef.Name == "extension-apiserver-authentication-reader" && subject(b.Subjects, p)
		}) {
			f.Seen = "no RoleBinding in kube-system gives it the Role extension-apiserver-authentication-reader"
			f.Means = "the adapter has no CA of the API server's front proxy: it does not start, or treats requests as anonymous"
			f.Commands = []string{l.in("kube-system", "create", "rolebinding", p.Name+"-authentication-reader", "--role=extension-apiserver-authentication-reader", account)}
			l.fault(f)
		}
	}
}

// subject reports whether a program's account is among subjects, by itself or as one
// of a group that all accounts are in.
func subject(all []rbacv1.Subject, p Program) bool {
	return slices.ContainsFunc(all, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			return s.Name == p.ServiceAccount && s.Namespace == p.Namespace
		case rbacv1.UserKind:
			return s.Name == "system:serviceaccount:"+p.Namespace+":"+p.ServiceAccount
		}
		return s.Kind == rbacv1.GroupKind && (s.Name == "system:serviceaccounts" || s.Name == "system:serviceaccounts:"+p.Namespace || s.Name == "system:authenticated")
	})
}

// needed are permissions that a program uses under any configuration. Those of optional
// features are left out: their absence may be intended.
type needed struct {
	verbs     []string
	group     string
	resources []string
}

var (
	watching    = []string{"list", "watch"}
	adapterUses = []needed{
		{watching, "", []string{"pods", "services"}}, {watching, "apps", []string{"replicasets", "deployments", "statefulsets"}}, {watching, "batch", []string{"jobs"}},
	}
	autoscalerReads = []needed{
		{watching, "", []string{"pods", "nodes", "namespaces", "limitranges", "resourcequotas", "persistentvolumes", "persistentvolumeclaims"}},
		{watching, "storage.k8s.io", []string{"storageclasses", "csinodes"}}, {watching, "policy", []string{"poddisruptionbudgets"}},
		{watching, "autoscaling", []string{"horizontalpodautoscalers"}}, {watching, "apps", []string{"deployments", "statefulsets"}},
		{watching, "scheduling.k8s.io", []string{"priorityclasses"}}, {watching, "gpuscale.io", []string{"gpunodepools", "gpuquotas"}},
	}
	autoscalerWrites = []needed{
		{[]string{"patch"}, "", []string{"nodes"}}, {[]string{"create"}, "", []string{"pods/eviction"}}, {[]string{"patch"}, "gpuscale.io", []string{"gpunodepools/status", "gpuquotas/status"}},
	}
)

func programRights(l *look) {
	adapters, autoscalers := l.programs("adapter"), l.programs("autoscaler")
	if !l.has(ClusterRoles, ClusterRoleBindings) || l.without("no adapter and no autoscaler of gpuscale was found", adapters, autoscalers) {
		return
	}
	for _, p := range adapters {
		l.lacksRights(p, "adapter.yaml", adapterUses, "it cannot read these objects: metrics of their pods have no value, and HPAs on them do not scale")
	}
	for _, p := range autoscalers {
		wanted := autoscalerReads
		if !slices.ContainsFunc(p.Args, isDryRun) {
			wanted = slices.Concat(autoscalerReads, autoscalerWrites)
		}
		l.lacksRights(p, "autoscaler.yaml", wanted, "it does not plan without what it cannot read, and its writes are refused in each reconcile")
	}
}

// lacksRights reports the permissions that a program's account lacks in the whole cluster.
func (l *look) lacksRights(p Program, manifest string, wanted []needed, means string) {
	var rules []rbacv1.PolicyRule // that hold for the account everywhere
	own := false                  // a role of the program's name is among them
	for _, b := range l.f.ClusterRoleBindings {
		if role := find(l.f.ClusterRoles, "", b.RoleRef.Name); b.RoleRef.Kind == "ClusterRole" && role != nil && subject(b.Subjects, p) {
			rules, own = append(rules, role.Rules...), own || role.Name == p.Name
		}
	}
	var missing []string
	for _, n := range wanted {
		for _, resource := range n.resources {
			for _, verb := range n.verbs {
				if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return gives(r, n.group, resource, verb) }) {
					continue
				}
				right := verb + " " + resource
				if n.group != "" {
					right += "." + n.group
				}
				missing = append(missing, right)
			}
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
	if own {
		f.Object, f.Seen = "ClusterRole "+p.Name, fmt.Sprintf("neither it nor another role gives %s: %s", p.Object(), named(missing))
	}
	l.fault(f)
}

// gives reports whether a rule grants a permission, for objects of any name.
func gives(rule rbacv1.PolicyRule, group, resource, verb string) bool {
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return len(rule.ResourceNames) == 0 && has(rule.APIGroups, group) && has(rule.Verbs, verb) && has(rule.Resources, resource)
}
