package doctor

// All checks, in the order of a diagnosis: installed, scraped, answering, permitted.
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
		Fault: "The adapter is installed, and not registered at the API server.",
		Means: "HPAs get no answer and do not scale.",
		Looks: []Source{Deployments, DaemonSets, APIServices, HPAs},
	},
	{
		ID: "apiservice-unavailable", Title: "The API server reaches the adapter", Run: apiServiceUnavailable,
		Fault: "The registration exists and the API server gets no answer, for a reason that is neither Service nor certificate.",
		Means: "HPAs get no answer and do not scale; namespaces may hang while they are deleted.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services, EndpointSlices},
	},
	{
		ID: "apiservice-ca", Title: "Service, endpoints and CA of the registration are right", Run: apiServiceCA,
		Fault: "The Service, its port or its endpoints are missing, `caBundle` is not the CA of the adapter's certificate, or the certificate is for another name.",
		Means: "HPAs get no answer and do not scale.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services, EndpointSlices, Pods},
	},
	{
		ID: "apiservice-owner", Title: "The metrics APIs are our adapter's", Run: apiServiceOwner,
		Fault: "Another server (prometheus-adapter, KEDA) has a group that our adapter is installed for.",
		Means: "HPAs reach a server without our signals.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services, HPAs},
	},
	{
		ID: "adapter-certificate", Title: "The adapter's CA is valid", Run: adapterCertificate,
		Fault: "The CA in `caBundle` has expired, expires within 30 days or is not yet valid, or the API server reports so of the adapter's certificate.",
		Means: "From that day on HPAs get no answer.",
		Looks: []Source{Deployments, DaemonSets, APIServices, Services},
	},
	{
		ID: "adapter-rights", Title: "The adapter may authenticate callers", Run: adapterRights,
		Fault: "The bindings to `system:auth-delegator` or `extension-apiserver-authentication-reader` are missing.",
		Means: "The adapter refuses all callers, or does not start.",
		Looks: []Source{Deployments, DaemonSets, ClusterRoleBindings, RoleBindings},
	},
	{
		ID: "program-rights", Title: "Adapter and autoscaler have the permissions that they use", Run: programRights,
		Fault: "No ClusterRole of a ServiceAccount grants a permission that its program uses in every cluster.",
		Means: "Objects it may not read have no value or stop its plans; writes it lacks are refused.",
		Looks: []Source{Deployments, DaemonSets, ClusterRoles, ClusterRoleBindings},
	},
}
