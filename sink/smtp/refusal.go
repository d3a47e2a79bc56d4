package smtp

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

// refusal is a server's answer to a mail that it did not take, as the methods below read it.
type refusal struct {
	code     int
	enhanced string // the code of RFC 3463 that the text begins with, if any
	text     string // in lower case, without what a mail's writer chose
}

// newRefusal reads an answer to a mail to these recipients.
func newRefusal(answer *textproto.Error, to []recipient) refusal {
	return refusal{code: answer.Code, enhanced: enhanced(answer), text: withoutAddresses(strings.ToLower(answer.Msg), to)}
}

// addresses are the parts of an answer that may repeat what a mail's writer chose: what is in brackets, in quotes, or has an @. A quote
// that is not closed hides all that follows, because a server may shorten what it repeats.
var addresses = regexp.MustCompile(`<(?:"(?:\\.|[^"\\])*"|[^>"])*>|"(?:\\.|[^"\\])*(?:"|$)|\S*@\S*`)

// withoutAddresses takes the recipients out of an answer in lower case. A local part in quotes can hold any text, which would
// otherwise pass for the server's own.
func withoutAddresses(text string, to []recipient) string {
	for _, one := range to {
		if local, ok := strings.CutPrefix(strings.ToLower(one.address), `<"`); ok {
			local = local[:max(0, strings.LastIndex(local, `"@`))]
			text = strings.ReplaceAll(text, local, "")
			text = strings.ReplaceAll(text, strings.ReplaceAll(local, `\`, ""), "")
		}
	}
	return addresses.ReplaceAllString(text, "")
}

// enhanced is the code of RFC 3463 that an answer's text begins with, if any.
func enhanced(answer *textproto.Error) string {
	code, _, _ := strings.Cut(strings.TrimSpace(answer.Msg), " ")
	if strings.Trim(code, "0123456789.") != "" {
		return ""
	}
	return code
}

// senderCodes are codes that speak of who sends.
func senderCodes() []string {
	return []string{
		"5.1.7", "5.1.8", // the sender's address is wrong or banned
		"5.7.8",             // the login does not hold
		"5.7.60", "5.2.252", // the login may not send as this sender
		"5.7.23", "5.7.25", "5.7.26", "5.7.27", // SPF, reverse DNS, DMARC, and a domain that takes no mail, of the sender (RFC 7372, RFC 7505)
	}
}

// senderTexts are what servers say of who sends: Postfix at each recipient, Amazon SES at the end of the mail, SendGrid and Exchange Online.
func senderTexts() []string {
	return []string{
		"sender address rejected", "helo command rejected", "client host rejected",
		"email address is not verified", "sending paused for this account", "not authorized to perform `ses:", "not authorized to perform ses:",
		"does not match a verified sender identity",
		"bad outbound sender", "banned sender", "banned sending ip",
	}
}

// aboutSender reports whether the server refuses who sends: the address, the name in EHLO, the machine or the account. Such an answer meets
// any mail, also if the server gives it to a recipient or to a whole mail.
func (r refusal) aboutSender() bool {
	if r.code >= 500 && (slices.Contains(senderCodes(), r.enhanced) || tenant.MatchString(r.enhanced)) {
		return true
	}
	if containsAny(r.text, senderTexts()...) {
		return true
	}
	return strings.Contains(r.text, "blocked using") && containsAny(r.text, "client host", "sender address", "helo command")
}

// tenant are codes by which Exchange Online blocks a whole account or its address. 5.7.703 is about a recipient.
var tenant = regexp.MustCompile(`^5\.7\.7(0[0-2]|0[4-9]|[1-9]\d)$`)

// aboutRelaying reports whether the server does not relay to the recipient for us.
func (r refusal) aboutRelaying() bool {
	return containsAny(r.text, "relay access denied", "relaying denied", "unable to relay", "not permitted to relay")
}

// aboutSystem reports whether the server says that it does not work itself: X.3.X is the status of the mail system (RFC 3463).
func (r refusal) aboutSystem() bool { return strings.HasPrefix(r.enhanced, "4.3.") }

// aboutGreylist reports whether the server puts off this pair of sender and recipient alone.
func (r refusal) aboutGreylist() bool { return containsAny(r.text, "greylist", "graylist") }

// aboutOwnMailbox reports whether Exchange cannot submit a mail because the sender's mailbox is full, not the recipient's.
func (r refusal) aboutOwnMailbox() bool {
	return r.code >= 500 && containsAny(r.text, "storedrv.submission") && containsAny(r.text, "quotaexceeded") && !r.aboutLimit()
}

// aboutLimit reports whether the sender has sent enough for now. A mailbox that is full has a quota too: that is its recipient's affair,
// and no reason to hold up the others.
func (r refusal) aboutLimit() bool {
	switch {
	case r.code < 500:
		return false
	case r.enhanced == "5.4.5", containsAny(r.text, "submissionquotaexceeded", "submission quota"):
		return true
	case strings.HasPrefix(r.enhanced, "5.2."), strings.Contains(r.text, "mailbox"):
		return false
	case containsAny(r.text, "sending limit", "daily limit"):
		return true
	}
	return strings.Contains(r.text, "quota") && containsAny(r.text, "sending", "sender quota", "sender's quota", "daily", "hourly")
}

// aboutRate reports whether a server puts a mail off because the sender sends too fast, or over too many connections. What it says of one
// recipient, such as a mailbox that gets mails too fast, does not count.
func (r refusal) aboutRate() bool {
	if r.code >= 500 || strings.HasPrefix(r.enhanced, "4.2.") {
		return false
	}
	return containsAny(r.text, "throttling failure", "sending rate", "submission rate", "rate limit", "too much mail from", "too many messages from", "too many connections from",
		"too many concurrent", "concurrent connections limit", "sender thread limit", "4.7.500 server busy")
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
