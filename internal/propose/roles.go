package propose

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/source/store/report"
)

// A role is a key of columns in the configuration, with the names that columns of this meaning usually have, the most telling one first. They are written
// without case and without what joins words.
type role struct {
	key     string
	names   string
	classes []report.Class
	// fits is a further condition.
	fits func(c *report.Column) bool
}

const statusNames = "outboxstatus deliverystatus publishstatus messagestatus eventstatus processingstate status statusname state estatus estado situacao statut stato durum"

const deliveredNames = "deliveredat sentat publishedat processedat dispatchedat completedat completiondate finishedat finalizedat dispatched published processed sent processedtime processedon senton publishedon " +
	"processedonutc processedatutc processeddate processeddateutc publishedonutc publishedatutc publisheddate sentonutc sentatutc sentdate completedon dispatchedon handledat ackedat consumedat pushedat pushcompletedat relayedat emittedat timesent timedelivered timepublished timeprocessed"

const bodyNames = "payload body content data eventbodydata eventdata eventpayload messagebody messagepayload eventbody eventjson serializedevent serializedmessage messagedata invocation " +
	"json message event value kafkavalue recordvalue args eventproperties payloadjson messagejson messagesjson"

// roles are in the order in which they choose: a column has one role.
func roles() []role {
	texts, times := []report.Class{report.Text, report.UUID}, []report.Class{report.Time, report.LocalTime}
	return []role{
		{"status", statusNames, []report.Class{report.Text, report.Number, report.Other}, hasWords},
		{"payload", bodyNames, []report.Class{report.JSON, report.Binary, report.Text}, isBody},
		{"headers", "headers messageheaders payloadheaders customheaders eventheaders headerbag metadata metadatajson attributes properties context", []report.Class{report.JSON, report.Text, report.Binary}, isObject},
		{"type", "eventtype messagetype eventtypename messagetypename payloadtype type kind eventname messagename typename eventclass jobtype jobclass recordtype classname class worker category triggername templatetype name event", []report.Class{report.Text}, isKind},
		{"topic", "topic topicname kafkatopic destinationtopic targettopic destination destinationaddress channel exchange subject routingkey", []report.Class{report.Text}, isName},
		{"delivered_at", deliveredNames, times, func(c *report.Column) bool { return mayBeEmpty(c) && !c.Touched }},
		{"failures", "failures failurecount failcount failedattempts timesfailed retrycount retriescount numretries nbretries retries retry errorcount errorscount errors", []report.Class{report.Number}, nil},
		{"attempts", "attempts attempt attemptcount attemptscount numattempts nbattempts publishattempts publishattempt tries triescount deliveryattempts deliveryattempt timesattempted completionattempts sendattempts sendcount pushattempts timessent numberofattempts readct", []report.Class{report.Number}, nil},
		{"last_attempt_at", "lastattemptat lastattempttime lastattempt attemptedat lastretryat lasttriedat lastattemptedon lastattemptedat", times, nil},
		{"next_attempt_at", "nextattemptat nextattempttime nextretryat nextretrytime nextrun retryat retryafter", times, nil},
		{"last_error", "lasterror lasterrormessage errormessage errormsg error errorlog errorreason failurereason exception", []report.Class{report.Text}, nil},
		{"available_at", "availableat availablefrom availableafter sendat executeat deliverat startafter scheduledfor scheduledat deliverafter processafter notbefore visibleat visibleafter sendafter delayeduntil runat vt",
			times, nil},
		{"created_at", "createdat created createdon createddate creationdate createtime insertedat recordedat creationtime occurredat occurredon occurredonutc timestamp added dateadded enqueuedat publicationdate",
			times, func(c *report.Column) bool { return !c.Touched }},
		{"updated_at", "updatedat modifiedat lastupdated lastmodified", times, nil},
		{"tenant", "tenant tenantid", texts, nil},
		{"correlation_id", "correlationid", texts, nil},
		{"content_type", "contenttype mimetype", []report.Class{report.Text}, isMedia},
		{"idempotency_key", "idempotencykey deduplicationkey dedupkey uniquerequestid", texts, nil},
		{"max_attempts", "maxattempts maxretries", []report.Class{report.Number}, nil},
		{"seq", "seq sequence sequencenumber globalindex globalposition", []report.Class{report.Number}, func(c *report.Column) bool { return c.Numbered }},
	}
}

// writtenKeys are the keys of the columns that the relay writes.
func writtenKeys() []string {
	return []string{"status", "attempts", "failures", "last_attempt_at", "next_attempt_at", "last_error", "delivered_at", "updated_at"}
}

// mayBeEmpty reports whether a new row has no value there, unless the application gives one.
func mayBeEmpty(c *report.Column) bool { return !c.NotNull && c.Default == "" }

// groupNames name columns that say which messages have to stay in order. The first group is made of two.
func groupNames() [][]string {
	groups := [][]string{{"aggregatetype", "aggregateid"}, {"aggregate", "aggregateid"}}
	for name := range strings.FieldsSeq("messagegroup messagegroupid groupid groupkey orderingkey partitionkey aggregateid aggregateidentifier aggregaterootid streamid streamname persistenceid aggregateuuid eventkey recordkey entityid shardkey") {
		groups = append(groups, []string{name})
	}
	return groups
}

// plain is a name without case and what joins words.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// isBody reports whether a column may hold bodies of messages. Names such as event and message are those of texts, too.
func isBody(c *report.Column) bool {
	if c.Class != report.Text || !among("message event value json args", c.Name) {
		return true
	}
	return len(c.Sample) > 0 && !slices.ContainsFunc(c.Sample, func(text string) bool { return !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") })
}

// isMedia reports whether a column may hold media types, such as application/json.
func isMedia(c *report.Column) bool {
	return !slices.ContainsFunc(c.Sample, func(text string) bool { return !strings.Contains(text, "/") })
}

// isName reports whether a column may hold names of topics: a subject may be that of a mail, but not if it is as those of NATS.
func isName(c *report.Column) bool {
	subject := plain(c.Name) == "subject"
	return (!subject || len(c.Sample) > 0) && !slices.ContainsFunc(c.Sample, func(text string) bool {
		return strings.ContainsAny(text, " \n") || subject && !strings.Contains(text, ".")
	})
}

// isKind reports whether a column may hold types of messages. An event may be a type or a whole message.
func isKind(c *report.Column) bool {
	return plain(c.Name) != "event" || len(c.Sample) > 0 && !slices.ContainsFunc(c.Sample, func(text string) bool { return strings.ContainsAny(text, " \n{[") })
}

// isObject reports whether a column may hold JSON objects. An empty list is an empty object of PHP.
func isObject(c *report.Column) bool {
	return !slices.ContainsFunc(c.Sample, func(text string) bool {
		whole := len(text) < report.SampleLength
		text = strings.TrimSpace(text)
		return text != "" && text != "[]" && (!strings.HasPrefix(text, "{") || !isText(text) || whole && !json.Valid([]byte(text)))
	})
}

// isNested reports whether a text of JSON, which may be cut, has lists or objects within its own.
func isNested(text string) bool {
	depth := 0
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > 1 {
				return true
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// isText reports whether a value may be UTF-8 text. It may be cut within its last character.
func isText(value string) bool {
	valid := strings.ToValidUTF8(value, "")
	return strings.HasPrefix(value, valid) && len(value)-len(valid) < utf8.UTFMax && !strings.Contains(value, "\x00")
}

// isEncoded reports whether a text is what PHP's serialize, base64 or an escape makes of a value. It may be cut.
func isEncoded(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return serialized.MatchString(text) || escaped.MatchString(text) || err == nil && len(text) >= 16 && !number.MatchString(text)
}

// escaped is the beginning of what bytes look like as a text of Postgres, and of JSON as part of an address or of HTML.
var escaped = regexp.MustCompile(`^(?:\\x[0-9a-f]{4}|%(?:7[bB]|5[bB])|[{\[]&quot;)`)

var serialized = regexp.MustCompile(`^(?:[OCaEs]:[0-9]+:\\?["{]|[ibd]:-?[0-9.]+;$)`)

// hasWords reports whether a column may hold words for states.
func hasWords(c *report.Column) bool {
	return (c.Class != report.Other || len(c.Labels) > 0) && (len(c.Sample) <= report.FewValues)
}

// Words that programs have for states of a message, without case and what joins words. Those of a message in flight are pending once that program is gone.
const (
	wordsPending   = "pending new ready created scheduled unsent unprocessed notprocessed unpublished notpublished init initial available tobesent open enqueued"
	wordsDelivered = "delivered sent done processed completed complete published success succeeded successful finished dispatched handled acked"
	wordsDead      = "dead deadletter deadlettered dlq permanentfailure discarded abandoned exhausted aborted poisoned failed failure error errored"
	wordsRetrying  = "retrying retry retryable resubmitted temporaryfailure"
	wordsInFlight  = "processing inprogress inprocessing running sending publishing locked leased executing queued started"
)

func among(words, word string) bool { return slices.Contains(strings.Fields(words), plain(word)) }
