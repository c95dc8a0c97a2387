CREATE FUNCTION agent_events_are_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = 'agent_event rows are never changed';
END
$$;
CREATE TRIGGER agent_event_rows_are_kept BEFORE DELETE OR UPDATE ON agent_event
    FOR EACH STATEMENT EXECUTE FUNCTION agent_events_are_kept();
