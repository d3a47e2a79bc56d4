package columns

import "testing"

func TestNear(t *testing.T) {
	t.Parallel()
	among := []string{"uniquerequestid", "id", "created_at", "Outbox_Messages", "status"}
	for name, want := range map[string]string{"uniqueRequestId": "uniquerequestid", "ID": "id", "createdAt": "created_at", "outboxmessages": "Outbox_Messages",
		"outbox_message": "Outbox_Messages", "stauts": "status", "status": "", "topic": "", "ix": "", "payload": ""} {
		if got := Near(name, among); got != want {
			t.Errorf("Near(%q) = %q, want %q", name, got, want)
		}
	}
}
