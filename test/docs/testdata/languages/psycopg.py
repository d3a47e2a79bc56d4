{{code}}

with psycopg.connect("", autocommit=True) as conn:
    pay_order(conn, 42)
    try:
        pay_order(conn, 43)
    except psycopg.Error:
        pass
    else:
        raise SystemExit("the message that is refused was no error")
