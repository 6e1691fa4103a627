package doctor

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// uses is a permission that a program requires with any configuration. Permissions for optional features are
// left out: their absence may be intended.
func uses(group, verbs string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Verbs: strings.Fields(verbs), Resources: resources}
}

// authenticationReader is the Role in kube-system by which an aggregated API server reads how callers are
// authenticated, and authentication its rule.
const authenticationReader = "extension-apiserver-authentication-reader"

var authentication = rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: []string{"get"}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}}

var (
	// The first two are those of the ClusterRole system:auth-delegator.
	adapterUses = []rbacv1.PolicyRule{
		uses("authentication.k8s.io", "create", "tokenreviews"), uses("authorization.k8s.io", "create", "subjectaccessreviews"), authentication,
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
		lacksRights(l, p, "adapter.yaml", adapterUses, "Without tokenreviews, subjectaccessreviews and the ConfigMap the adapter refuses all requests or does not start. Metrics of pods that it cannot read have no value. HPAs do not scale.")
	}
	for _, p := range autoscalers {
		wanted := autoscalerReads
		if !slices.ContainsFunc(p.Args, isDryRun) {
			wanted = slices.Concat(autoscalerReads, autoscalerWrites)
		}
		lacksRights(l, p, "autoscaler.yaml", wanted, "The autoscaler does not plan without the objects that it may not read, and writes that it may not do fail in each reconcile.")
	}
}

// lacksRights reports the permissions that a program's account lacks. The rules of other Roles in kube-system
// are not read.
func lacksRights(l *look, p Program, manifest string, wanted []rbacv1.PolicyRule, means string) {
	var rules []rbacv1.PolicyRule
	var missing []string
	account, unread := "ServiceAccount "+p.Namespace+"/"+p.ServiceAccount, ""
	for _, b := range ClusterRoleBindings.in(l) {
		if role := find(ClusterRoles.in(l), "", b.RoleRef.Name); role != nil && subject(b.Subjects, p) {
			rules = append(rules, role.Rules...)
		}
	}
	for _, b := range RoleBindings.in(l) {
		switch {
		case !subject(b.Subjects, p):
		case b.RoleRef.Name == authenticationReader:
			rules = append(rules, authentication)
		default:
			unread = b.RoleRef.Name
		}
	}
	_, lacking := validation.Covers(rules, wanted)
	for _, r := range lacking { // each has one verb and one resource
		switch right := strings.TrimSuffix(r.Verbs[0]+" "+r.Resources[0]+"."+r.APIGroups[0], "."); {
		case len(r.ResourceNames) == 0:
			missing = append(missing, right)
		case unread == "":
			missing = append(missing, right+" "+r.ResourceNames[0]+" in kube-system")
		default:
			l.cannot("RoleBindings in kube-system give %s the Role %s, which doctor does not read, and not %s", account, unread, authenticationReader)
		}
	}
	if len(missing) > 0 {
		l.fault(account, p.Object()+" runs as this ServiceAccount, which may not: "+several(missing), "Install the program again: this restores its permissions.", l.install(p, manifest)).Means = means
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
