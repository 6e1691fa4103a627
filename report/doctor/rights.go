package doctor

import rbacv1 "k8s.io/api/rbac/v1"

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
