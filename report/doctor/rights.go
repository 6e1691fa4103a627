package doctor

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// authenticationReader is the Role by which an aggregated API server reads how callers are authenticated. The
// rules below are those of this Role and of the ClusterRole system:auth-delegator.
const authenticationReader = "extension-apiserver-authentication-reader"

var (
	delegation     = []rbacv1.PolicyRule{uses("authentication.k8s.io", "create", "tokenreviews"), uses("authorization.k8s.io", "create", "subjectaccessreviews")}
	authentication = []rbacv1.PolicyRule{{APIGroups: []string{""}, Verbs: []string{"get", "list", "watch"}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}}}
)

func adapterRights(l *look) {
	for _, p := range ourAdapters(l) {
		account, flag := "ServiceAccount "+p.Namespace+"/"+p.ServiceAccount, "--serviceaccount="+p.Namespace+":"+p.ServiceAccount
		rules, _ := granted(l, p)
		if covered, _ := validation.Covers(rules, delegation); !covered {
			l.fault(account, "no ClusterRoleBinding gives it the ClusterRole system:auth-delegator", "Bind that ClusterRole.",
				l.kubectl("create", "clusterrolebinding", p.Name+"-auth-delegator", "--clusterrole=system:auth-delegator", flag)).
				Means = "The adapter cannot ask the API server who sends a request, and refuses all requests."
		}
		unread := ""
		for _, b := range RoleBindings.in(l) {
			switch {
			case b.Namespace != "kube-system" || !subject(b.Subjects, p):
			case b.RoleRef.Name == authenticationReader:
				rules = append(rules, authentication...)
			default:
				unread = b.RoleRef.Name
			}
		}
		switch covered, _ := validation.Covers(rules, authentication); {
		case covered:
		case unread != "":
			l.cannot("RoleBindings in kube-system give %s the Role %s, which doctor does not read, and not %s", account, unread, authenticationReader)
		default:
			l.fault(account, "no RoleBinding in kube-system gives it the Role "+authenticationReader, "Bind that Role.",
				l.in("kube-system", "create", "rolebinding", p.Name+"-authentication-reader", "--role="+authenticationReader, flag)).
				Means = "The adapter cannot read the CA for requests from the API server: it does not start, or treats all requests as anonymous."
		}
	}
}

// subject reports whether the subjects include a program's service account, by itself or through a group of
// all service accounts.
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

// uses is a permission that a program requires with any configuration. Permissions for optional features are
// left out: their absence may be intended.
func uses(group, verbs string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Verbs: strings.Fields(verbs), Resources: resources}
}

var (
	adapterUses = []rbacv1.PolicyRule{
		uses("", "list watch", "pods", "services"), uses("apps", "list watch", "replicasets", "deployments", "statefulsets"), uses("batch", "list watch", "jobs"),
	}
	autoscalerReads = []rbacv1.PolicyRule{
		uses("", "list watch", "pods", "nodes", "namespaces", "limitranges", "resourcequotas", "persistentvolumes", "persistentvolumeclaims"),
		uses("storage.k8s.io", "list watch", "storageclasses", "csinodes"), uses("policy", "list watch", "poddisruptionbudgets"),
		uses("autoscaling", "list watch", "horizontalpodautoscalers"), uses("apps", "list watch", "deployments", "statefulsets", "daemonsets"),
		uses("scheduling.k8s.io", "list watch", "priorityclasses"), uses("gpuscale.io", "list watch", "gpunodepools", "gpuquotas"),
	}
	autoscalerWrites = []rbacv1.PolicyRule{
		uses("", "patch", "nodes"), uses("", "create", "pods/eviction"), uses("gpuscale.io", "patch", "gpunodepools/status", "gpuquotas/status"),
	}
)

func programRights(l *look) {
	adapters, autoscalers := l.programs("adapter"), l.programs("autoscaler")
	orSkip(l, slices.Concat(adapters, autoscalers), "no gpuscale adapter and no gpuscale autoscaler is installed")
	for _, p := range adapters {
		lacksRights(l, p, "adapter.yaml", adapterUses, "The adapter cannot read these objects: metrics of their pods have no value, and HPAs on these metrics do not scale.")
	}
	for _, p := range autoscalers {
		wanted := autoscalerReads
		if !slices.ContainsFunc(p.Args, isDryRun) {
			wanted = slices.Concat(autoscalerReads, autoscalerWrites)
		}
		lacksRights(l, p, "autoscaler.yaml", wanted, "The autoscaler does not plan without the objects that it may not read, and writes that it may not do fail in each reconcile.")
	}
}

// granted returns a program's cluster-wide permissions. own is true if one of them comes from a role with the
// program's name.
func granted(l *look, p Program) (rules []rbacv1.PolicyRule, own bool) {
	for _, b := range ClusterRoleBindings.in(l) {
		if role := find(ClusterRoles.in(l), "", b.RoleRef.Name); role != nil && subject(b.Subjects, p) {
			rules, own = append(rules, role.Rules...), own || role.Name == p.Name
		}
	}
	return rules, own
}

// lacksRights reports the cluster-wide permissions that a program's account lacks.
func lacksRights(l *look, p Program, manifest string, wanted []rbacv1.PolicyRule, means string) {
	rules, own := granted(l, p)
	covered, lacking := validation.Covers(rules, wanted)
	if covered {
		return
	}
	var missing []string
	for _, r := range lacking { // each has one verb and one resource
		missing = append(missing, strings.TrimSuffix(r.Verbs[0]+" "+r.Resources[0]+"."+r.APIGroups[0], "."))
	}
	object, seen := "ServiceAccount "+p.Namespace+"/"+p.ServiceAccount, p.Object()+" runs as this ServiceAccount, and no ClusterRole grants it: "
	if own {
		object, seen = "ClusterRole "+p.Name, "neither this ClusterRole nor another grants "+p.Object()+": "
	}
	l.fault(object, seen+several(missing), "Install the program again: this restores its permissions.", l.install(p, manifest)).Means = means
}
