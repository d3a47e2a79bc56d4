package debezium

import "strings"

// spanContext is the option of the router that names the column with the trace of a message, and the name that this column has by default.
const spanContext, spanContextColumn = "tracing.span.context.field", "tracingspancontext"

// traces reports whether a variable of a worker gives Debezium OpenTelemetry.
func traces(s *setting) bool {
	return s.key == "ENABLE_OTEL" && strings.EqualFold(s.raw, "true") || strings.Contains(s.raw, "-javaagent:") && strings.Contains(s.raw, "opentelemetry")
}

// traced takes over that Debezium's router looks for the trace of a message if Debezium has OpenTelemetry, also if no option says so.
func (c *conversion) traced() {
	if c.tracer == nil {
		return
	}
	s := &setting{key: "$" + c.tracer.key, file: c.tracer.file, line: c.tracer.line, origin: c.tracer}
	for name := range c.options {
		if strings.HasPrefix(name, "tracing.") {
			c.out.ignored(s, "the options tracing.* of the router say what is sent")
			return
		}
	}
	err := c.describeTables()
	switch {
	case c.columns.untoldAgain(err) || err == nil && c.columns.blind: // only a report shows it
		c.out.ignored(s, "unless the table has the column "+spanContextColumn+": the database has not been asked yet")
	case err != nil || c.kind == mongodb:
		reason := "documents do not tell whether they have that field"
		if err != nil {
			reason = err.Error()
		}
		c.problem(s, "has Debezium send the trace in %s as the header traceparent, but %s: if rows have it, write the option %s=%s of the router, and if not, remove this from the file that is imported",
			spanContextColumn, reason, spanContext, spanContextColumn)
	case c.columns.has(spanContextColumn):
		c.out.set(1, spanContext, spanContextColumn, "Debezium looks there because of "+s.key, s)
		c.referred = append(c.referred, s)
	default:
		c.out.ignored(s, "it traces messages by the column "+spanContextColumn+", which the table does not have")
	}
}
