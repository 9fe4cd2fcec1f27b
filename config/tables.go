package config

// manifestFields are those of every manifest. specFields has those of spec, by kind.
var manifestFields = fields{
	is("apiVersion", oneOfThese([]string{manifestVersion}), "The version of the manifest's form.").required(),
	is("kind", oneOfThese(kinds), "Source: what informd watches. Handler: who gets events. "+
		"Rule: which changes go to which handler. Test: what rules make of what happens.").required(),
	is("metadata", mappingOf(metadataFields), "The name, by which other manifests refer to this one.").required(),
	is("spec", aMapping, "What the manifest says.").required(),
}

var metadataFields = fields{
	is("name", aDNSLabel, "The name, unique among the manifests of its kind.").required(),
	is("labels", membersOf("", maybeEmpty(aText)), "Labels, which tools add. informd does not read them."),
	is("annotations", membersOf("", maybeEmpty(aText)), "Annotations, which tools add. informd does not read them."),
}

var specFields = map[string]fields{
	kindSource: sourceFields, kindHandler: handlerFields, kindRule: ruleFields, kindTest: testFields,
}

var sourceFields = fields{
	is("resource", aResource, "The resource to watch: VERSION/RESOURCE or GROUP/VERSION/RESOURCE, "+
		"with the plural name, as kubectl api-resources prints it.").required(),
	is("namespaces", such("[shop, pay]", setOf(aDNSLabel)), "The namespaces to watch, with an informer for "+
		"each. Without it, one informer watches all of them."),
	is("labelSelector", such("tier in (web)", maybeEmpty(aText)), "Which objects to watch, by their labels. "+
		"The API server evaluates it."),
	is("fieldSelector", such("status.phase!=Succeeded", maybeEmpty(aText)), "Which objects to watch, by their "+
		"fields. The API server evaluates it, and knows few fields."),
	is("resync", span(true, minResync, maxResync, 0), "How often every object comes again, as synced, "+
		"to the rules that have no resync of their own. 0 is never."),
	is("keep", oneOfThese(keeps), "needed keeps in memory only the fields that rules and indexes read. "+
		"The default keeps whole objects."),
	is("indexes", such("{byNode: object.spec.nodeName}", membersOf(indexName.String(), expression)),
		"Indexes by which rules and handlers find objects: names, and expressions that give a string or "+
			"a list of strings."),
	is("metrics", atMost(maxMetrics, listOf(mappingOf(metricFields))),
		"Gauges over all objects of the source, shown on /metrics."),
}

var metricFields = fields{
	is("name", form{types: []string{"string"}, pattern: metricNames.String()},
		"The name of the metric. That of a counter ends with _total.").required(),
	is("help", aText, "What the metric means."),
	is("type", oneOfThese(metricTypes), "A gauge is about objects as they are, a counter about changes. "+
		"The default is gauge."),
	is("value", expression, "What an object, or a change, adds: a number. The default is 1."),
	is("labels", membersOf("", expression), "The labels: names, and expressions that give their values."),
	is("series", whole(minSeries, maxSeries, defaultSeries), "How many series there may be."),
}

var handlerFields = fields{
	is("command", such("[./oncall, --verbose]", listOf(aText)), "The program and its arguments. A path is "+
		"relative to the manifest's folder. No shell is involved."),
	is("builtin", oneOfThese(builtins), "A handler that comes with informd: log writes each event as a "+
		"line, exec gives it to a command, webhook posts it over HTTP."),
	is("address", such("dns:///oncall.shop.svc:8443", aText), "Where a handler serves that informd does "+
		"not start. It needs tls."),
	is("tls", mappingOf(tlsFields), "The certificates for address, as PEM files."),
	is("sha256", form{types: []string{"string", "number"}, pattern: `^[0-9a-fA-F]{64}$`},
		"The checksum of the program, as sha256sum prints it. informd starts no other."),
	is("env", setOf(form{types: []string{"string"}, pattern: envName.String()}),
		"Names of variables of informd's environment that the handler receives."),
	is("config", anything, "What the handler gets as its configuration, as JSON."),
	is("concurrency", whole(1, maxConcurrency, 0),
		"How many events the handler may work on at once. Default: 8, or 64 if it takes batches."),
	is("timeout", span(false, minTimeout, maxTimeout, defaultTimeout), "How long one event may take."),
	is("retry", mappingOf(retryFields), "When an event that failed comes again."),
	is("logLevel", oneOfThese(logLevels), "The lowest level of the handler's lines in informd's log."),
	is("user", form{types: []string{"string", "integer"}}, "The user of the process: a name, a UID or "+
		"UID:GID. informd must be root."),
	is("limits", mappingOf(limitFields), "What the process and its children may use."),
	is("sandbox", aBoolean, "true takes files and the network out of the handler's reach, "+
		"except for what files and network name."),
	is("files", mappingOf(fileFields), "Paths that a handler in a sandbox may use."),
	is("network", either(oneOfThese(networks), setOf(form{types: []string{"integer"}, whole: &wholeRange{1, maxPort, 0}})),
		"The TCP ports to which a handler in a sandbox may connect: none, all or a list."),
	is("access", mappingOf(accessFields), "What the handler may read of informd's cache, and what it may "+
		"have informd change in the cluster."),
}

var tlsFields = fields{
	is("ca", aText, "The authorities that may have signed the handler's certificate.").required(),
	is("cert", aText, "informd's own certificate.").required(),
	is("key", aText, "The key of cert.").required(),
	is("serverName", aText, "The name in the handler's certificate. The default is the host of address."),
}

var retryFields = fields{
	is("attempts", whole(0, maxAttempts, 0), "After how many failures an event becomes a dead letter. "+
		"0, the default, is never."),
	is("backoff", span(false, minBackoff, maxBackoff, defaultBackoff), "The wait before the first repeat."),
	is("maxBackoff", span(false, minBackoff, maxBackoff, defaultMaxBackoff), "The longest wait."),
}

var limitFields = fields{
	is("memory", form{types: []string{"string", "number"}, example: "256Mi"}, "Memory."),
	is("cpu", form{types: []string{"string", "number"}, example: "500m"}, "Cores."),
	is("files", whole(minFiles, maxFiles, 0), "Open files per process."),
	is("processes", whole(minProcesses, maxProcesses, 0), "Processes and threads."),
}

var fileFields = fields{
	is("read", setOf(aText), "Paths that it may read."),
	is("write", setOf(aText), "Paths that it may read and write."),
}

var accessFields = fields{
	is("read", setOf(aText), "Names of Sources whose objects the handler may read."),
	is("write", atMost(maxGrants, listOf(mappingOf(grantFields))), "What the handler may change. One "+
		"element must allow an action completely."),
}

var grantFields = fields{
	is("resource", aTarget, "The resource, with /status behind it for the status.").required(),
	is("verbs", setOf(oneOfThese(verbs)), "What may be done to it.").required(),
	is("namespaces", setOf(aDNSLabel), "Where. Without it, everywhere."),
	is("names", setOf(aText), "Patterns of names: * is any characters, ? one, [a-z] one of these."),
}

var ruleFields = fields{
	is("source", aText, "The Source whose objects the rule is about."),
	is("where", such(`object.status.phase == "Pending"`, expression), "Which objects are members of the "+
		"rule. It sees object only."),
	is("for", span(false, minFor, maxFor, 0), "How long where must have held before an object is a member."),
	is("due", such(`time(object.status.notAfter) - duration("336h")`, expression),
		"The time from which an object is a member. nil is never."),
	is("events", setOf(oneOfThese(events)), "Which changes of members the rule wants. The default is all."),
	is("when", such(`old.status.phase != "Failed"`, expression), "Which changes go on. It sees object, "+
		"old, event, now(), byIndex() and lookup()."),
	is("count", mappingOf(countFields), "Lets the nth change within a time go on."),
	is("group", mappingOf(groupFields), "Gathers changes into one event, or leaves time between events."),
	is("delivery", oneOfThese(deliveries), "latest, the default, merges the changes of an object that "+
		"wait. every keeps each of them."),
	is("resync", span(true, minResync, maxResync, 0), "How often the rule sees every member again, as "+
		"synced. 0 turns the source's resync off."),
	is("schedule", mappingOf(scheduleFields), "Moments at which the rule sees every member, as synced. "+
		"Without a source, it has one event at each."),
	is("payload", anything, "What the event has in place of the objects: an expression, a template with "+
		"${…}, or a mapping or list of payloads."),
	is("attach", such(`{pods: 'lookup("pods.byNode", object.metadata.name)'}`,
		atMost(maxAttachments, membersOf(indexName.String(), expression))),
		"Other objects that go with the event: names, and expressions that find them."),
	is("handler", aText, "The Handler that gets the events."),
	is("actions", atMost(maxActions, listOf(mappingOf(actionFields))), "What informd changes in the cluster "+
		"for each event."),
	is("prune", aBoolean, "true deletes what the rule has applied and no longer applies."),
	is("ownChanges", oneOfThese(ownChanges), "Whether the rule hears of changes that it made itself. "+
		"The default is ignore."),
	is("metrics", atMost(maxMetrics, listOf(mappingOf(metricFields))),
		"Gauges over the members of the rule, and counters of its changes, shown on /metrics."),
	is("formerly", aDNSLabel, "The name that the rule had before it was renamed. The rule keeps what it "+
		"had then."),
}

var countFields = fields{
	is("times", whole(minCounted, maxCounted, minCounted), "After how many changes an event is sent.").required(),
	is("within", span(false, minWithin, maxWithin, maxWithin), "The time within which they count.").required(),
	is("by", expression, "What counts together. The default is the object."),
	is("at", expression, "When a change happened: a time. The default is now."),
}

var groupFields = fields{
	is("by", expression, "Which objects belong together. The default is each object by itself."),
	is("wait", span(true, minGathered, maxGathered, 0), "How long changes are gathered before a group's "+
		"first event."),
	is("every", span(true, minGathered, maxGathered, 0), "The least time between two events of a group."),
}

var scheduleFields = fields{
	is("cron", such("0 3 * * *", either(aText, listOf(aText))), "Cron expressions, or @start.").required(),
	is("zone", such("Europe/Berlin", aText), "The time zone. The default is UTC."),
	is("missed", oneOfThese(missed), "What comes of moments at which informd does "+
		"not run: the latest of them once it runs again, or none."),
}

// missed is what a schedule can make of moments that it has missed. The first one is the default.
var missed = []string{"latest", skipMissed}

const skipMissed = "skip"

// actionFields are those of an action: which, when, and one verb.
var actionFields = append(fields{
	is("forEach", expression, "A list: the action is done for each element, which expressions call item."),
	is("if", expression, "Whether the action is done."),
}, verbFields...)

var verbFields = fields{
	is(Apply, orManifest(mappingOf(fields{
		is("resource", aTarget, "The resource of the object, with /status behind it for the status.").required(),
		objectField,
	})), "Applies an object, with server-side apply: creates it, or makes it so. It is the object, or its "+
		"resource and the object."),
	is(Create, orManifest(mappingOf(fields{
		is("resource", aTarget, "The resource of the object.").required(),
		objectField,
	})), "Creates an object that does not exist yet. It is the object, or its resource and the object."),
	is(Patch, mappingOf(append(targetFields.only("resource", "namespace", "name", "uid", "resourceVersion"),
		is("merge", aDescriptor, "What changes: a merge patch, in which null removes a field."),
		is("json", either(aText, listOf(mappingOf(operationFields))), "What changes: the operations of a "+
			"JSON patch."),
	)), "Changes an object that exists. The default is the object of the change."),
	is(Delete, mappingOf(targetFields.only("resource", "namespace", "name", "uid", "resourceVersion")),
		"Deletes an object. The default is the object of the change."),
	is(Event, mappingOf(append(targetFields.only("resource", "namespace", "name", "uid"),
		is("reason", aText, "One word in CamelCase that says what happened.").required(),
		is("message", anything, "What happened, for people."),
		is("warning", aBoolean, "Whether it is an Event of type Warning."),
	)), "Makes a Kubernetes Event about an object. The default is the object of the change."),
}

// fieldsOfObject are those that informd reads of a manifest below apply or create.
var fieldsOfObject = fields{
	is("apiVersion", form{types: []string{"string"}, pattern: `^([^/$]+/)?[^/$]+$`, example: "v1"},
		"The object's group and version.").required(),
	is("kind", form{types: []string{"string"}, pattern: kindName.String(), example: "ConfigMap"},
		"The object's kind.").required(),
	is("metadata", aDescriptor, "The object's name, and its namespace if it has one."),
}

var objectField = is("object", aDescriptor, "The object. Its strings are templates with ${…}.").required()

var targetFields = fields{
	is("resource", aTarget, "The resource of the object. The default is that of the rule's source."),
	is("namespace", anything, "The namespace of the object, a template."),
	is("name", anything, "The name of the object, a template."),
	is("uid", anything, "The UID that the object must have, a template."),
	is("resourceVersion", anything, "The resourceVersion that the object must have, a template."),
}

var operationFields = fields{
	is("op", aText, "add, copy, move, remove, replace or test.").required(),
	is("path", aText, "Where, as a JSON pointer.").required(),
	is("value", form{types: []string{"string", "number", "boolean", "object", "array", "null"}}, "The value."),
	is("from", aText, "Where from, as a JSON pointer."),
}

var testFields = fields{
	is("rules", setOf(aText), "The rules that run. The default is all."),
	is("start", such("2026-01-02T03:00:00Z", aText), "When the test begins. The default is the beginning "+
		"of 2026."),
	is("steps", listOf(mappingOf(stepFields)), "What happens, and which events come.").required(),
}

// stepFields are those of a step: one verb, and what is expected.
var stepFields = append(stepVerbFields[:len(stepVerbFields):len(stepVerbFields)],
	is("expect", maybeEmpty(listOf(mappingOf(expectedFields))), "The events since the last expect. [] means "+
		"that none came."),
	is("exact", aBoolean, "true compares what is expected whole, and in its order."),
)

// stepVerbFields are those of a step while informd does not watch, although few may stand there.
var stepVerbFields = append(eventfulFields[:len(eventfulFields):len(eventfulFields)],
	is(StepAfter, span(false, 1, maxAfter, 0), "Time passes."),
	is(StepRestart, mappingOf(fields{
		is("down", span(true, 1, maxAfter, 0), "How long informd is down."),
		is("state", oneOfThese(keptOrLost), "Whether the state directory is kept, the default, or lost."),
		historyField,
		is("clock", such("+1h", form{types: []string{"string"}, pattern: `^[-+]`}),
			"By how much the clock is set meanwhile, forward or back."),
		meanwhileField,
	}), "informd ends, and starts again."),
	is(StepRelist, mappingOf(fields{historyField, meanwhileField}),
		"The watches break, and are opened again."),
	is(StepStall, mappingOf(fields{sourceField}), "Nothing is heard of a resource, until relist."),
	is(StepUnserve, mappingOf(fields{
		sourceField,
		is("withdrawn", aBoolean, "true: no other version is served, either."),
	}), "The version that a source names is not served, until serve."),
	is(StepServe, mappingOf(fields{sourceField}), "The version is served again."),
	is(StepAnswer, mappingOf(fields{
		is("rule", aText, "The rule whose next events are answered."),
		is("handler", aText, "The handler whose next events are answered."),
		is("target", mappingOf(testTargetFields), "The object that the rule's own next actions fail on. The "+
			"others are performed."),
		is("times", whole(1, maxTimes, 1), "How many events are answered so, or actions."),
		is("retry", mappingOf(answeredRetryFields), "The handler asks for the event again."),
		is("reject", aText, "The handler rejects the event, for this reason."),
		is("actions", atMost(maxActions, listOf(mappingOf(actionFields))), "The handler asks for actions."),
	}), "Says what the handler answers to the next events."),
)

var eventfulFields = fields{
	is(StepApply, mappingOf(fields{
		is("source", aText, "The Source that sees the object.").required(),
		is("object", aMapping, "The object, as it is from now on.").required(),
	}), "An object is created or replaced."),
	is(StepPatch, mappingOf(append(objectStepFields[:3:3],
		is("merge", aMapping, "What changes: a merge patch.").required())), "An object is changed."),
	is(StepDelete, mappingOf(objectStepFields), "An object is deleted."),
}

var objectStepFields = fields{
	is("source", aText, "The Source that sees the object.").required(),
	is("namespace", aText, "The namespace of the object."),
	is("name", aText, "The name of the object.").required(),
}

var answeredRetryFields = fields{
	is("after", span(false, 1, day, 0), "When. The default is informd's own delay."),
	is("reason", aText, "Why."),
}

var testTargetFields = fields{
	is("resource", aTarget, "The resource of the object, with /status behind it for the status.").required(),
	is("namespace", aText, "The namespace of the object."),
	is("name", aText, "The name of the object.").required(),
}

var sourceField = is("source", aText, "The Source whose resource it is.").required()

var historyField = is("history", oneOfThese(keptOrLost), "Whether the API server still has the changes, "+
	"the default, or only a list says what has happened.")

var meanwhileField = is("meanwhile", listOf(mappingOf(eventfulFields)), "What happens to objects while "+
	"informd does not watch.")

var expectedFields = append(fields{
	is("rule", aText, "The rule that made the event."),
	is("dead", aText, "Why the event became a dead letter."),
	is("error", aText, "Why an expression failed, so that no event came."),
	is("attempt", whole(1, maxTimes, 1), "The number of the attempt."),
	is("attached", aMapping, "The attached objects, by name."),
	is("items", maybeEmpty(listOf(mappingOf(itemFields))), "The items of the event of a group, the oldest first."),
	is("actions", maybeEmpty(listOf(mappingOf(comparedVerbFields))), "The actions, as objects. [] means none."),
}, itemFields...).only("rule", "event", "namespace", "name", "attempt", "payload", "object", "old",
	"attached", "items", "actions", "dead", "error")

// itemFields are those in which the items of one event differ.
var itemFields = fields{
	is("event", oneOfThese(events), "The kind of change."),
	is("namespace", maybeEmpty(aText), `The namespace of the object; "" if it has none.`),
	is("name", aText, "The name of the object."),
	is("payload", anything, "The payload."),
	is("object", aMapping, "Fields of the object."),
	is("old", aMapping, "Fields of the object before."),
}

var comparedVerbFields = comparedFields(verbFields)

// comparedFields are the fields of actions that are compared with others: none of them must be there.
func comparedFields(verbs fields) (out fields) {
	for _, verb := range verbs {
		var all fields
		for _, f := range verb.fields {
			f.isRequired, f.form = false, anything
			all = append(all, f)
		}
		isObject := verb.orManifest
		verb.form = mappingOf(all)
		verb.orManifest = isObject
		out = append(out, verb)
	}
	return out
}

var (
	ownChanges = []string{"ignore", "deliver"}
	keptOrLost = []string{"kept", "lost"}
)
