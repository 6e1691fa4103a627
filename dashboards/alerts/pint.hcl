# What pint holds our rules to: make lint-rules. Beside its own checks that need no
# Prometheus, which are all on, an alert must say whom it is for and what to do.
rule {
  match {
    kind = "alerting"
  }
  label "severity" {
    severity = "bug"
    required = true
    values   = ["critical", "warning", "info"]
  }
  annotation "summary" {
    severity = "bug"
    required = true
  }
  annotation "description" {
    severity = "bug"
    required = true
  }
  annotation "runbook_url" {
    severity = "bug"
    value    = "https://.+/docs/runbooks/{{ $alert }}.md"
    required = true
  }
}

# Two matchers are regular expressions with a reason: a MIG profile's name begins
# with its compute slices and no label has those alone, and the chart writes one
# namespace or several into namespace=~"gpuscale-system".
checks {
  disabled = ["promql/regexp"]
}
