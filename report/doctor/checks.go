package doctor

// All checks, in the order in which people look for faults: is it installed, is it
// scraped, does it answer, may it act.
func All() []Check {
	var all []Check
	for _, group := range [][]Check{adapterChecks, scrapeChecks, hpaChecks, quotaChecks, nodeChecks, poolChecks, guardChecks} {
		all = append(all, group...)
	}
	return all
}

var adapterChecks = []Check{
	{
		ID: "apiservice-missing", Title: "The metrics APIs are registered", Run: apiServiceMissing,
		Fault: "The adapter is installed, and the API server does not know of it.",
		Means: "HPAs get no answer and do not scale.",
		Looks: []Source{Deployments, DaemonSets, APIServices, HPAs},
	},
	{
		ID: "apiservice-unavailable", Title: "The API server reaches the adapter", Run: apiServiceUnavailable,
		Fault: "The registration is there and the API server gets no answer, for a reason that is neither Service nor certificate.",
		Means: "HPAs get no answer and do not scale; namespaces may hang while they are deleted.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services, EndpointSlices},
	},
	{
		ID: "apiservice-ca", Title: "Service, endpoints and authority of the registration are right", Run: apiServiceCA,
		Fault: "The Service, its port or its endpoints are missing, `caBundle` is not the authority of what is served, or the certificate is for another name.",
		Means: "HPAs get no answer and do not scale.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services, EndpointSlices, Pods},
	},
	{
		ID: "apiservice-owner", Title: "The metrics APIs are our adapter's", Run: apiServiceOwner,
		Fault: "Another server (prometheus-adapter, KEDA) has a group that our adapter is installed for.",
		Means: "HPAs ask somebody who does not know our signals.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services, HPAs},
	},
	{
		ID: "adapter-certificate", Title: "The adapter's authority lasts", Run: adapterCertificate,
		Fault: "The authority in `caBundle` has ended, ends within 30 days or has not begun, or the API server says so of the certificate that is served.",
		Means: "From that day on HPAs get no answer.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services},
	},
	{
		ID: "adapter-rights", Title: "The adapter may ask who is there", Run: adapterRights,
		Fault: "The bindings to `system:auth-delegator` or `extension-apiserver-authentication-reader` are missing.",
		Means: "The adapter refuses everybody, or does not start.",
		Looks: []Source{Deployments, DaemonSets, ClusterRoleBindings, RoleBindings},
	},
	{
		ID: "program-rights", Title: "Adapter and autoscaler have the rights that they use", Run: programRights,
		Fault: "No ClusterRole of an account gives a right that its program uses in every cluster.",
		Means: "What it may not see has no value or stops its plans, what it may not write is refused.",
		Looks: []Source{Deployments, DaemonSets, ClusterRoles, ClusterRoleBindings},
	},
}
