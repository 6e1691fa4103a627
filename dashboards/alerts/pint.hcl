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

# A MIG profile's name begins with its compute slices, and rules over slices match
# that beginning: there is no label to take instead.
check "promql/regexp" {
  smelly = false
}
